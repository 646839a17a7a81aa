/* SPDX-License-Identifier: Apache-2.0 */
/* Notifies compshim run that the library is in use. Needs libc only. */
#ifndef CSHIM_PRESENCE_H
#define CSHIM_PRESENCE_H

/* Notifies compshim run (COMPSHIM_RUN), if it runs on this host, that this process uses MPI, NCCL
 * or gloo with the shim on. Never waits, and returns no error: the notification may be lost. */
void cshim_presence_notify(void);

#endif
