/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for the CUDA driver, for tests; proves nothing about speed or the real driver.
 * Here: graphs, their launches, and user objects. */
#include <stdlib.h>
#include <string.h>

#include "tests/nccl/standin/cuda_capture.h"

struct CUgraphExec_st {
    uint32_t magic;
    CUgraph graph; /* copy owned by the instance */
    int launches;  /* number of launches that have not ended, plus one for the handle */
};

CUgraph standin_graph_new(void)
{
    CUgraph graph = standin_zeros(sizeof *graph);
    graph->magic = STANDIN_GRAPH;
    return graph;
}

int standin_graph_add(CUgraph graph, struct standin_op *op, int branch, int after)
{
    if (graph->count == graph->room) {
        graph->room = graph->room == 0 ? 16 : 2 * graph->room;
        graph->nodes = realloc(graph->nodes, (size_t)graph->room * sizeof *graph->nodes);
        if (graph->nodes == NULL)
            abort();
    }
    graph->nodes[graph->count] = (struct standin_node){op, branch, after};
    return graph->count++;
}

/* Releases `count` references to a user object. If it was the last one, calls the object's
 * destructor, which must not call CUDA. */
static void release_object(CUuserObject object, unsigned count)
{
    pthread_mutex_lock(&standin_lock);
    const bool last = object->references > 0 && object->references <= count;
    object->references -= last ? object->references : count;
    pthread_mutex_unlock(&standin_lock);
    if (last) {
        const bool before = standin_in_callback;
        standin_in_callback = true;
        object->destroy(object->argument);
        standin_in_callback = before;
    }
}

static void hold(CUgraph graph, CUuserObject object, unsigned references)
{
    const size_t bytes = (size_t)(graph->held_count + 1) * sizeof *graph->held;
    graph->held = realloc(graph->held, bytes);
    if (graph->held == NULL)
        abort();
    graph->held[graph->held_count++] = (struct standin_held){object, references};
}

void standin_graph_free(CUgraph graph)
{
    for (int i = 0; i < graph->count; i++)
        if (graph->nodes[i].op != NULL)
            standin_op_free(graph->nodes[i].op);
    for (int i = 0; i < graph->held_count; i++)
        release_object(graph->held[i].object, graph->held[i].references);
    free(graph->nodes);
    free(graph->held);
    *graph = (struct CUgraph_st){.magic = STANDIN_DEAD};
}

static bool is_graph(CUgraph graph)
{
    return graph != NULL && graph->magic == STANDIN_GRAPH;
}

STANDIN_EXPORT CUresult cuGraphDestroy(CUgraph graph)
{
    STANDIN_ENTER();
    if (!is_graph(graph))
        return CUDA_ERROR_INVALID_VALUE;
    standin_graph_free(graph);
    return CUDA_SUCCESS;
}

STANDIN_EXPORT CUresult cuUserObjectCreate(CUuserObject *object, void *argument, CUhostFn destroy,
                                           unsigned int references, unsigned int flags)
{
    STANDIN_ENTER();
    if (object == NULL || destroy == NULL || references == 0 ||
        flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
        return CUDA_ERROR_INVALID_VALUE;
    *object = standin_zeros(sizeof **object);
    **object = (struct CUuserObject_st){STANDIN_OBJECT, destroy, argument, references};
    return CUDA_SUCCESS;
}

STANDIN_EXPORT CUresult cuUserObjectRelease(CUuserObject object, unsigned int count)
{
    STANDIN_ENTER();
    if (object == NULL || object->magic != STANDIN_OBJECT || count == 0 ||
        object->references < count)
        return CUDA_ERROR_INVALID_VALUE;
    release_object(object, count);
    return CUDA_SUCCESS;
}

STANDIN_EXPORT CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object,
                                                unsigned int count, unsigned int flags)
{
    STANDIN_ENTER();
    if (!is_graph(graph) || object == NULL || object->magic != STANDIN_OBJECT || count == 0 ||
        flags > CU_GRAPH_USER_OBJECT_MOVE)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&standin_lock);
    object->references += flags == CU_GRAPH_USER_OBJECT_MOVE ? 0 : count;
    hold(graph, object, count);
    pthread_mutex_unlock(&standin_lock);
    return CUDA_SUCCESS;
}

/* Instances ------------------------------------------------------------------------------------ */
static CUgraph copy(CUgraph graph)
{
    CUgraph twin = standin_graph_new();
    twin->branches = graph->branches;
    for (int i = 0; i < graph->count; i++) {
        const struct standin_node *node = &graph->nodes[i];
        if (node->op != NULL)
            __atomic_add_fetch(&node->op->references, 1, __ATOMIC_RELAXED);
        standin_graph_add(twin, node->op, node->branch, node->after);
    }
    pthread_mutex_lock(&standin_lock);
    for (int i = 0; i < graph->held_count; i++) {
        graph->held[i].object->references += graph->held[i].references;
        hold(twin, graph->held[i].object, graph->held[i].references);
    }
    pthread_mutex_unlock(&standin_lock);
    return twin;
}

STANDIN_EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph,
                                                    unsigned long long flags)
{
    STANDIN_ENTER();
    if (exec == NULL || !is_graph(graph))
        return CUDA_ERROR_INVALID_VALUE;
    if (flags != 0)
        return CUDA_ERROR_NOT_SUPPORTED;
    *exec = standin_zeros(sizeof **exec);
    **exec = (struct CUgraphExec_st){STANDIN_EXEC, copy(graph), 1};
    return CUDA_SUCCESS;
}

static void let_go(CUgraphExec exec)
{
    if (__atomic_sub_fetch(&exec->launches, 1, __ATOMIC_ACQ_REL) == 0)
        standin_graph_free(exec->graph);
}

STANDIN_EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    STANDIN_ENTER();
    if (exec == NULL || exec->magic != STANDIN_EXEC)
        return CUDA_ERROR_INVALID_VALUE;
    exec->magic = STANDIN_DEAD;
    let_go(exec);
    return CUDA_SUCCESS;
}

/* Launches: branch 0 on the stream's thread, each other one on a thread of its own. ------------ */
struct graph_launch {
    CUgraphExec exec;
    struct standin_entry *nodes; /* the graph's nodes in this launch */
    bool *done;
    CUresult status;
    pthread_mutex_t lock;
    pthread_cond_t progress;
};

struct branch {
    struct graph_launch *launch;
    int number;
    pthread_t thread;
};

static void run_node(struct graph_launch *launch, int number)
{
    const struct standin_node *node = &launch->exec->graph->nodes[number];
    pthread_mutex_lock(&launch->lock);
    while (node->after >= 0 && !launch->done[node->after])
        pthread_cond_wait(&launch->progress, &launch->lock);
    CUresult status = launch->status;
    pthread_mutex_unlock(&launch->lock);
    standin_running = &launch->nodes[number];
    if (node->op != NULL && status == CUDA_SUCCESS) {
        status = node->op->run(node->op->payload, launch->nodes[number].ticket);
        standin_order_log(standin_running);
    }
    pthread_mutex_lock(&launch->lock);
    if (launch->status == CUDA_SUCCESS)
        launch->status = status;
    launch->done[number] = true;
    pthread_cond_broadcast(&launch->progress);
    pthread_mutex_unlock(&launch->lock);
}

static void *run_branch(void *argument)
{
    const struct branch *branch = argument;
    const CUgraph graph = branch->launch->exec->graph;
    for (int i = 0; i < graph->count; i++)
        if (graph->nodes[i].branch == branch->number)
            run_node(branch->launch, i);
    return NULL;
}

static CUresult run_launch(void *payload, uint64_t ticket)
{
    struct graph_launch *launch = payload;
    struct branch branches[STANDIN_BRANCHES_MAX] = {{0}};
    const int count = launch->exec->graph->branches;
    (void)ticket;
    const struct standin_entry *whole = standin_running;
    struct branch first = {.launch = launch, .number = 0};
    for (int i = 1; i < count; i++) {
        branches[i] = first;
        branches[i].number = i;
        if (pthread_create(&branches[i].thread, NULL, run_branch, &branches[i]) != 0)
            abort();
    }
    run_branch(&first);
    for (int i = 1; i < count; i++)
        pthread_join(branches[i].thread, NULL);
    standin_running = whole;
    return launch->status;
}

static void release_launch(void *payload)
{
    struct graph_launch *launch = payload;
    let_go(launch->exec);
    free(launch->nodes);
    free(launch->done);
    free(launch);
}

/* Draws the tickets at the launch, so that launches of graphs and of single operations have one
 * order. */
static uint64_t prepare_launch(void *payload)
{
    struct graph_launch *launch = payload;
    const CUgraph graph = launch->exec->graph;
    for (int i = 0; i < graph->count; i++) {
        const struct standin_op *op = graph->nodes[i].op;
        launch->nodes[i].ticket = op != NULL && op->prepare != NULL ? op->prepare(op->payload) : 0;
    }
    return 0;
}

/* Sets the clocks of the nodes: each branch is ordered like a stream, after the work that the
 * launch's stream had; later work of that stream comes after all branches. Branches share clock
 * slots with streams, so some races are not found. */
static void order_launch(void *payload, CUstream stream)
{
    struct graph_launch *launch = payload;
    const CUgraph graph = launch->exec->graph;
    struct standin_clock latest[STANDIN_BRANCHES_MAX];
    for (int branch = 0; branch < graph->branches; branch++)
        latest[branch] = stream->clock;
    for (int i = 0; i < graph->count; i++) {
        const struct standin_node *node = &graph->nodes[i];
        if (node->after >= 0)
            standin_order_merge(&latest[node->branch], &launch->nodes[node->after].clock);
        launch->nodes[i].op = node->op;
        standin_order_inside(&launch->nodes[i], &latest[node->branch],
                             (int)(stream->number % STANDIN_SLOTS) + 16 * node->branch);
        latest[node->branch] = launch->nodes[i].clock;
    }
    for (int branch = 0; branch < graph->branches; branch++)
        standin_order_after(stream, &latest[branch]);
}

STANDIN_EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream handle)
{
    STANDIN_ENTER();
    CUstream stream;
    STANDIN_CHECK(standin_stream_of(handle, &stream));
    if (exec == NULL || exec->magic != STANDIN_EXEC)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream->capture != NULL)
        return CUDA_ERROR_NOT_SUPPORTED; /* child graphs are not supported here */
    struct graph_launch *launch = calloc(1, sizeof *launch);
    const size_t nodes = (size_t)exec->graph->count + 1;
    if (launch == NULL)
        abort();
    __atomic_add_fetch(&exec->launches, 1, __ATOMIC_RELAXED);
    launch->exec = exec;
    launch->nodes = calloc(nodes, sizeof *launch->nodes);
    launch->done = calloc(nodes, sizeof *launch->done);
    if (launch->nodes == NULL || launch->done == NULL)
        abort();
    pthread_mutex_init(&launch->lock, NULL);
    pthread_cond_init(&launch->progress, NULL);
    struct standin_op *op = standin_op_new("graph", run_launch, release_launch, launch);
    op->prepare = prepare_launch;
    op->order = order_launch;
    return standin_enqueue(stream, op);
}
