/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the stand-in for libcuda.so.1: captures and graphs (cuda_capture.c, cuda_graph.c). */
#ifndef STANDIN_CUDA_CAPTURE_H
#define STANDIN_CUDA_CAPTURE_H

#include "tests/nccl/standin/cuda_internal.h"

enum { STANDIN_BRANCHES_MAX = 64 };

/* A node follows the one before it in its branch, and others'. A node without an operation joins.
 */
struct standin_node {
    struct standin_op *op;
    int branch;
    int after; /* a node of another branch, or -1 */
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
    int branches; /* each began as a stream */
    struct standin_held *held;
    int held_count;
};

/* One capture, from its beginning on; kept, because events may point to it. */
struct standin_capture {
    uint64_t id;
    CUstreamCaptureMode mode;
    CUstreamCaptureStatus status; /* NONE once it has ended */
    pthread_t thread;
    CUstream origin;
    CUstream streams[STANDIN_BRANCHES_MAX]; /* of the branches */
    int last[STANDIN_BRANCHES_MAX];         /* node of each branch, -1 before the first */
    bool joined[STANDIN_BRANCHES_MAX];      /* into another branch, since its last node */
    CUgraph graph;
    struct standin_capture *next; /* of those that have not ended */
};

/* A node of an operation (consumed) or of a wait for `after`; returns its number. */
int standin_graph_add(CUgraph graph, struct standin_op *op, int branch, int after);
CUgraph standin_graph_new(void);
void standin_graph_free(CUgraph graph);

#endif
