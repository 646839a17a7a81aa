/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to the stand-in for libcuda.so.1: captures and graphs (cuda_capture.c, cuda_graph.c). */
#ifndef STANDIN_CUDA_CAPTURE_H
#define STANDIN_CUDA_CAPTURE_H

#include "tests/nccl/standin/cuda_internal.h"

enum { STANDIN_BRANCHES_MAX = 64 };

/* A node of a graph follows the previous one of its branch, and `after`. A node without an
 * operation only waits for `after`. */
struct standin_node {
    struct standin_op *op;
    int branch;
    int after; /* node of another branch, or -1 */
};

struct CUuserObject_st {
    uint32_t magic;
    CUhostFn destroy;
    void *argument;
    unsigned references;
};

struct standin_held {
    CUuserObject object;
    unsigned references;
};

struct CUgraph_st {
    uint32_t magic;
    struct standin_node *nodes;
    int count, room;
    int branches; /* number of branches; each is a captured stream */
    struct standin_held *held;
    int held_count;
};

/* A capture. Never freed, because events may point to it. */
struct standin_capture {
    uint64_t id;
    CUstreamCaptureMode mode;
    CUstreamCaptureStatus status; /* NONE once it has ended */
    pthread_t thread;
    CUstream origin;
    CUstream streams[STANDIN_BRANCHES_MAX]; /* stream of each branch */
    int last[STANDIN_BRANCHES_MAX];         /* last node of each branch; -1: none */
    bool joined[STANDIN_BRANCHES_MAX];      /* another branch has waited for its last node */
    CUgraph graph;
    struct standin_capture *next; /* next capture that has not ended */
};

/* Adds a node for an operation (whose reference it consumes) or for a wait for `after`; returns its
 * index. */
int standin_graph_add(CUgraph graph, struct standin_op *op, int branch, int after);
CUgraph standin_graph_new(void);
void standin_graph_free(CUgraph graph);

#endif
