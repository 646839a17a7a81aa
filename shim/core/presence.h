/* SPDX-License-Identifier: Apache-2.0 */
/* How compshim run learns that a process has come to MPI or NCCL through the library. */
#ifndef CSHIM_PRESENCE_H
#define CSHIM_PRESENCE_H

/* The environment variable with the names of the datagram sockets to tell, in Linux's abstract
 * namespace, with commas between them: a run may be started by another. */
#define CSHIM_PRESENCE_VARIABLE "COMPSHIM_RUN"

#endif
