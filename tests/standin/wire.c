/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for PMPI_Isend, for the test of golden wire bytes: adds every message that the engine
 * sends to a digest, by receiver, type and bytes, and sends it. standin_wire_digest returns the
 * digest of this process and begins a new one. A receiver counts as its rank modulo
 * standin_wire_peers, a type as the tag modulo 2. */
#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

__attribute__((visibility("default"))) int standin_wire_peers = 1;
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
    const int peer = to % standin_wire_peers, kind = tag % 2;
    add(&peer, sizeof peer);
    add(&kind, sizeof kind);
    add(data, (size_t)count);
    return MPI_Isend(data, count, datatype, to, tag, comm, request);
}
