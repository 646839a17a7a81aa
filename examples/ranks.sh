# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by scripts that start ranks with Open MPI's mpirun: allows more ranks than cores, and root, binds no rank to a
# core, lets waiting ranks yield, and switches Open MPI 4's single-copy messages off. Open MPI 4 reads the variables
# OMPI_..., Open MPI 5 those named PRTE_... and some of the others.
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
export OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
if [ "$(id -u)" = 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
