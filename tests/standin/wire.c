/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for PMPI_Isend, for the test of golden wire bytes: it adds every message that the
 * engine sends to a digest, by its receiver, tag and bytes, and hands it on. standin_wire_digest
 * returns the digest of this process and begins a new one. */
#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

static uint64_t digest;

static void add(const void *data, size_t length)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < length; i++)
        digest = (digest ^ bytes[i]) * UINT64_C(0x100000001b3);
}

__attribute__((visibility("default"))) uint64_t standin_wire_digest(void)
{
    const uint64_t last = digest;
    digest = UINT64_C(0xcbf29ce484222325);
    return last;
}

__attribute__((visibility("default"))) int PMPI_Isend(const void *data, int count,
                                                      MPI_Datatype datatype, int to, int tag,
                                                      MPI_Comm comm, MPI_Request *request)
{
    add(&to, sizeof to);
    add(&tag, sizeof tag);
    add(data, (size_t)count);
    return MPI_Isend(data, count, datatype, to, tag, comm, request);
}
