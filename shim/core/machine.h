/* SPDX-License-Identifier: Apache-2.0 */
/* The machine: facts of its nodes and links, from which a call's time is foretold (cost.h).
 *
 * All ranks of a job have the same facts: they are measured once (shim/host/measure.h) or come from
 * the file that COMPSHIM_MACHINE names, and rank 0 sends them to all. So the same call gets the
 * same plan on every rank. No MPI, no CUDA, no globals.
 */
#ifndef CSHIM_MACHINE_H
#define CSHIM_MACHINE_H

#include <stdbool.h>
#include <stdio.h>

#include "policy/policy.h"

/* Whose choice of algorithms a native call gets. */
enum cshim_native { CSHIM_NATIVE_OPENMPI, CSHIM_NATIVE_MPICH, CSHIM_NATIVE_GLOO };

/* A fact that is not known is 0. Seconds, and bytes per second. */
struct cshim_machine {
    char source[256]; /* "measured", or the file's name */
    enum cshim_native native;
    double latency_between;   /* of a step in which two nodes send each other a short message */
    double bandwidth_between; /* of a node that exchanges messages of up to 60 KiB with several */
    double bandwidth_pair;    /* the same with a single other node */
    double bandwidth_short;   /* the same, of one message each way before the link is busy */
    double bandwidth_long;    /* the same as bandwidth_pair, in long messages */
    double latency_inside;    /* of such a step between two ranks of a node */
    double bandwidth_inside;  /* of a rank that sends to another of its node, and receives */
    double message;           /* of processor time for one message more */
    double busy_between;      /* share of such an exchange in which the processor works for it */
    double cores;             /* for each rank while all compute; more than 1 is as good as 1 */
    double add;               /* bytes of float32 that one core adds to others */
    double encode[CSHIM_CODEC_COUNT]; /* bytes of float32 that one core encodes, by codec */
    double decode[CSHIM_CODEC_COUNT];
    double reduce[CSHIM_CODEC_COUNT]; /* bytes of float32 of each part that one core adds up */
};

/* Reads facts, a line "name = number" for each, as cshim_machine_print writes them. What has no
 * line is not known; but cores, add, and of the links between nodes or of those inside a node the
 * latency and the bandwidth have to be. Returns false with a line "source:LINE: what is wrong" in
 * the message. */
bool cshim_machine_parse(struct cshim_machine *machine, const char *text, const char *source,
                         char message[CSHIM_MESSAGE_MAX]);
/* The same of a file. */
bool cshim_machine_load(struct cshim_machine *machine, const char *path,
                        char message[CSHIM_MESSAGE_MAX]);

/* "openmpi", "mpich" or "gloo". */
const char *cshim_native_name(enum cshim_native native);

/* Writes the facts that are known, with a comment for each. */
void cshim_machine_print(FILE *stream, const struct cshim_machine *machine);

/* Calls `tell` for each fact that is known, with its name in files and reports. */
void cshim_machine_each(const struct cshim_machine *machine,
                        void (*tell)(void *to, const char *name, double value), void *to);

#endif
