/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for the CUDA driver, for tests; proves nothing about speed or the real driver.
 * Here: injected faults (STANDIN_FAIL), names of errors, and files. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/nccl/standin/cuda_internal.h"

enum { FAULTS_MAX = 16, NAME_MAX_LENGTH = 48 };

static struct fault {
    char name[NAME_MAX_LENGTH];
    long call; /* number of the call that fails */
    int code;
    long rank; /* rank of the process in which it fails; -1: in all */
    long calls;
} faults[FAULTS_MAX];
static int fault_count;
static pthread_once_t parsed = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Returns the process's rank as the launcher has set it, otherwise its process id. */
long standin_process_rank(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "RANK"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = getenv(names[i]);
        if (text != NULL)
            return strtol(text, NULL, 10);
    }
    return (long)getpid();
}

int standin_open_file(const char *variable)
{
    const char *pattern = getenv(variable);
    char path[4096];
    if (pattern == NULL || *pattern == 0)
        return -1;
    const char *place = strstr(pattern, "{rank}");
    if (place == NULL)
        snprintf(path, sizeof path, "%s", pattern);
    else
        snprintf(path, sizeof path, "%.*s%ld%s", (int)(place - pattern), pattern,
                 standin_process_rank(), place + 6);
    const int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (file < 0)
        perror(path);
    return file;
}

/* Returns the length of a function's name without its suffix: of "cuMemAlloc" for "cuMemAlloc_v2".
 */
static size_t plain_length(const char *name)
{
    const char *suffix = strstr(name, "_v");
    return suffix != NULL ? (size_t)(suffix - name) : strlen(name);
}

static int usual_code(const char *name)
{
    if (strncmp(name, "nccl", 4) == 0)
        return 1; /* ncclUnhandledCudaError */
    return strstr(name, "Alloc") != NULL || strstr(name, "Create") != NULL
               ? CUDA_ERROR_OUT_OF_MEMORY
           : strcmp(name, "cuLibraryLoadData") == 0 ? CUDA_ERROR_NO_BINARY_FOR_GPU
                                                    : CUDA_ERROR_UNKNOWN;
}

static void parse(void)
{
    const char *text = getenv("STANDIN_FAIL");
    while (text != NULL && *text != 0) {
        struct fault *fault = &faults[fault_count];
        int length = 0;
        if (fault_count == FAULTS_MAX ||
            sscanf(text, "%47[A-Za-z0-9]:%ld%n", fault->name, &fault->call, &length) != 2) {
            fprintf(stderr, "standin libcuda: STANDIN_FAIL=...%s: not NAME:N[:CODE][@RANK],...\n",
                    text);
            exit(3);
        }
        text += length;
        fault->code = usual_code(fault->name);
        if (*text == ':')
            fault->code = (int)strtol(text + 1, (char **)&text, 10);
        fault->rank = -1;
        if (*text == '@')
            fault->rank = strtol(text + 1, (char **)&text, 10);
        fault_count++;
        text += *text == ',';
    }
}

bool standin_fails(const char *name, int *code)
{
    pthread_once(&parsed, parse);
    bool fails = false;
    const size_t length = plain_length(name);
    if (fault_count == 0)
        return false;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < fault_count; i++) {
        struct fault *fault = &faults[i];
        if (fault->rank >= 0 && fault->rank != standin_process_rank())
            continue;
        if (strlen(fault->name) == length && memcmp(fault->name, name, length) == 0 &&
            ++fault->calls == fault->call) {
            *code = fault->code;
            fails = true;
            fprintf(stderr, "standin: call %ld of %s fails with %d, as STANDIN_FAIL asks\n",
                    fault->call, fault->name, fault->code);
        }
    }
    pthread_mutex_unlock(&lock);
    return fails;
}

#define ERRORS(ERROR)                                                                              \
    ERROR(CUDA_SUCCESS)                                                                            \
    ERROR(CUDA_ERROR_INVALID_VALUE)                                                                \
    ERROR(CUDA_ERROR_OUT_OF_MEMORY)                                                                \
    ERROR(CUDA_ERROR_NOT_INITIALIZED)                                                              \
    ERROR(CUDA_ERROR_NO_DEVICE)                                                                    \
    ERROR(CUDA_ERROR_INVALID_DEVICE)                                                               \
    ERROR(CUDA_ERROR_INVALID_IMAGE)                                                                \
    ERROR(CUDA_ERROR_INVALID_CONTEXT)                                                              \
    ERROR(CUDA_ERROR_NO_BINARY_FOR_GPU)                                                            \
    ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED)                                                         \
    ERROR(CUDA_ERROR_INVALID_HANDLE)                                                               \
    ERROR(CUDA_ERROR_NOT_FOUND)                                                                    \
    ERROR(CUDA_ERROR_NOT_READY)                                                                    \
    ERROR(CUDA_ERROR_ILLEGAL_ADDRESS)                                                              \
    ERROR(CUDA_ERROR_LAUNCH_FAILED)                                                                \
    ERROR(CUDA_ERROR_NOT_PERMITTED)                                                                \
    ERROR(CUDA_ERROR_NOT_SUPPORTED)                                                                \
    ERROR(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)                                                   \
    ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)                                                   \
    ERROR(CUDA_ERROR_STREAM_CAPTURE_MERGE)                                                         \
    ERROR(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED)                                                     \
    ERROR(CUDA_ERROR_STREAM_CAPTURE_UNJOINED)                                                      \
    ERROR(CUDA_ERROR_STREAM_CAPTURE_ISOLATION)                                                     \
    ERROR(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)                                                      \
    ERROR(CUDA_ERROR_CAPTURED_EVENT)                                                               \
    ERROR(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD)                                                  \
    ERROR(CUDA_ERROR_UNKNOWN)

static const char *error_name(CUresult error)
{
    switch (error) {
#define ERROR_NAME(name)                                                                           \
    case name:                                                                                     \
        return #name;
        ERRORS(ERROR_NAME)
#undef ERROR_NAME
    default:
        return NULL;
    }
}

STANDIN_EXPORT CUresult cuGetErrorName(CUresult error, const char **text)
{
    *text = error_name(error);
    return *text != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

STANDIN_EXPORT CUresult cuGetErrorString(CUresult error, const char **text)
{
    *text = error_name(error) != NULL ? "an error of the stand-in for the CUDA driver" : NULL;
    return *text != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
