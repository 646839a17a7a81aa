/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSHIM_MPI_SUMMARY_H
#define CSHIM_MPI_SUMMARY_H

/* Brings all ranks' ledgers together at rank 0, which prints the table and writes the report the
 * policy or $COMPSHIM_REPORT asks for. Collective over the job. */
void cshim_summary(void);

#endif
