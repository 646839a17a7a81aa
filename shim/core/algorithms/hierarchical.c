/* SPDX-License-Identifier: Apache-2.0 */
/* hierarchical: the ranks of each node reduce the segment; each gets a share of the node's sum. The
 * ranks with the same local index, one of each node, then reduce their share by another algorithm,
 * two_shot or grid. Finally the ranks of each node gather the reduced shares; in a reduce only on
 * the root's node, in a reduce-scatter on no node. A rank whose local index does not exist on the
 * smallest node gets no share: it only takes part in its node's operations.
 *
 * Buffer: the stage, with the node's sum of this rank's share (in a reduce-scatter, also the chunks
 * that the node adds). */
#include "shim/core/compiler.h"

void cshim_compile_hierarchical(struct cshim_compiler *compiler)
{
    cshim_emit_node(compiler, CSHIM_OPERATION_NODE_REDUCE);
    if (compiler->role->peer >= 0 && compiler->plan->algorithm == CSHIM_ALGORITHM_GRID)
        cshim_compile_grid(compiler);
    else if (compiler->role->peer >= 0)
        cshim_compile_two_shot(compiler);
    compiler->depth = CSHIM_PIPELINE_DEPTH;
    if (cshim_role_gathers(compiler->role))
        cshim_emit_node(compiler, CSHIM_OPERATION_NODE_GATHER);
}
