/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/core/row.h"

#include <math.h>

#define COUNT(member) CSHIM_FIELD_COUNT, offsetof(struct cshim_row, member)
#define REAL(member) CSHIM_FIELD_REAL, offsetof(struct cshim_row, member)
#define LARGEST(member) CSHIM_FIELD_LARGEST, offsetof(struct cshim_row, member)

const struct cshim_row_field cshim_row_fields[CSHIM_ROW_FIELDS] = {
    {"calls", false, COUNT(calls)},
    {"bytes_in", true, COUNT(bytes_in)},
    {"bytes_wire", true, COUNT(bytes_wire)},
    {"bytes_network", true, COUNT(bytes_network)},
    {"bytes_native", true, COUNT(bytes_native)},
    {"seconds", true, REAL(seconds)},
    {"seconds_encode", false, REAL(seconds_of[CSHIM_PHASE_ENCODE])},
    {"seconds_exchange", false, REAL(seconds_of[CSHIM_PHASE_EXCHANGE])},
    {"seconds_decode", false, REAL(seconds_of[CSHIM_PHASE_DECODE])},
    {NULL, false, COUNT(compared_calls)},
    {NULL, false, REAL(seconds_compared)},
    {NULL, false, REAL(seconds_native_estimate)},
    {NULL, false, COUNT(native_calls)},
    {NULL, false, REAL(seconds_native)},
    {NULL, false, REAL(seconds_native_low)},
    {NULL, false, REAL(seconds_native_high)},
    {NULL, false, REAL(error_squares)},
    {NULL, false, REAL(sum_squares)},
    {NULL, false, COUNT(samples)},
    {NULL, false, COUNT(verified)},
    {NULL, false, REAL(verify_errors)},
    {NULL, false, REAL(verify_error_squares)},
    {NULL, false, LARGEST(verify_largest)},
    {NULL, false, REAL(verify_magnitudes)},
    {NULL, false, REAL(verify_squares)},
    {NULL, false, COUNT(checked)},
    {NULL, false, COUNT(differing)},
};

void cshim_row_add(struct cshim_row *to, const struct cshim_row *from)
{
    for (size_t i = 0; i < CSHIM_ROW_FIELDS; i++) {
        const struct cshim_row_field *field = &cshim_row_fields[i];
        const void *added = (const char *)from + field->offset;
        void *sum = (char *)to + field->offset;
        if (field->kind == CSHIM_FIELD_COUNT)
            *(uint64_t *)sum += *(const uint64_t *)added;
        else if (field->kind == CSHIM_FIELD_REAL)
            *(double *)sum += *(const double *)added;
        else
            *(double *)sum = fmax(*(double *)sum, *(const double *)added);
    }
}

struct cshim_saving cshim_row_saving(const struct cshim_row *row)
{
    struct cshim_saving saving = {.natively = row->seconds_native_estimate + row->seconds_native,
                                  .took = row->seconds_compared + row->seconds_native};
    if (row->seconds_compared > 0) {
        saving.speedup = row->seconds_native_estimate / row->seconds_compared;
        saving.low = row->seconds_native_low / row->seconds_compared;
        saving.high = row->seconds_native_high / row->seconds_compared;
    }
    return saving;
}

double cshim_row_error(const struct cshim_row *row)
{
    if (row->samples == 0)
        return -1.0;
    return row->sum_squares > 0 ? sqrt(row->error_squares / row->sum_squares) : 0.0;
}

struct cshim_verdict cshim_row_verdict(const struct cshim_row *row)
{
    const double squares = row->verify_squares, magnitudes = row->verify_magnitudes;
    return (struct cshim_verdict){
        .rel_l2 = squares > 0 ? sqrt(row->verify_error_squares / squares) : 0.0,
        .largest = row->verify_largest,
        .bias = magnitudes > 0 ? row->verify_errors / magnitudes : 0.0,
    };
}
