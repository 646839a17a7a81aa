/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for an MPI, NCCL, gloo, the shim or a program's own library in tests of compshim check
 * and run and of the hook of dlsym, with just enough symbols for the loader to bind.
 *
 *   FUNCTION  the function; with ANSWER it is defined here, returns this value, and may be HIDDEN
 *   HANDLE    a variable to define, by which an MPI is recognised
 *   CALLER    a function to define that calls FUNCTION */
#ifndef FUNCTION
#define FUNCTION MPI_Allreduce
#define ANSWER 0
#endif

int FUNCTION(void);

#ifdef ANSWER
#ifdef HIDDEN
__attribute__((visibility("hidden")))
#endif
int FUNCTION(void)
{
    return ANSWER;
}
#endif

#ifdef HANDLE
int HANDLE = 1;
#endif

#ifdef CALLER
int CALLER(void);
int CALLER(void)
{
    return FUNCTION();
}
#endif
