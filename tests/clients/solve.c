/* SPDX-License-Identifier: Apache-2.0 */
/* Solves a Poisson equation by PETSc's conjugate gradients, with a preconditioner of two levels:
 * the diagonal, and one value for each square of 8 x 8 points, whose residuals are summed over all
 * ranks. Prints the iterations, the residual and the norm of the solution. An ordinary PETSc
 * program: it knows nothing of the preload. */
#include <petscksp.h>

#define POINTS 512 /* grid points in each direction */
#define SQUARES (POINTS / 8)

static PetscScalar coarse[SQUARES * SQUARES];

static PetscInt square_of(PetscInt row)
{
    return row / POINTS / 8 * SQUARES + row % POINTS / 8;
}

/* Adds each square's summed residual, over all ranks, to the residual; both are scaled. */
static PetscErrorCode precondition(PC pc, Vec residual, Vec result)
{
    const PetscScalar *from;
    PetscScalar *to;
    PetscInt first, last;
    (void)pc;
    PetscCall(VecGetOwnershipRange(residual, &first, &last));
    PetscCall(VecGetArrayRead(residual, &from));
    PetscCall(VecGetArray(result, &to));
    PetscCall(PetscArrayzero(coarse, SQUARES * SQUARES));
    for (PetscInt row = first; row < last; row++)
        coarse[square_of(row)] += from[row - first];
    PetscCallMPI(MPI_Allreduce(MPI_IN_PLACE, coarse, SQUARES * SQUARES, MPI_DOUBLE, MPI_SUM,
                               PETSC_COMM_WORLD));
    for (PetscInt row = first; row < last; row++)
        to[row - first] = from[row - first] / 4 + coarse[square_of(row)] / 32;
    PetscCall(VecRestoreArray(result, &to));
    PetscCall(VecRestoreArrayRead(residual, &from));
    return 0;
}

static PetscErrorCode fill(Mat matrix)
{
    PetscInt first, last;
    PetscCall(MatGetOwnershipRange(matrix, &first, &last));
    for (PetscInt row = first; row < last; row++) {
        const PetscInt x = row % POINTS, y = row / POINTS;
        PetscCall(MatSetValue(matrix, row, row, 4, INSERT_VALUES));
        if (x > 0)
            PetscCall(MatSetValue(matrix, row, row - 1, -1, INSERT_VALUES));
        if (x < POINTS - 1)
            PetscCall(MatSetValue(matrix, row, row + 1, -1, INSERT_VALUES));
        if (y > 0)
            PetscCall(MatSetValue(matrix, row, row - POINTS, -1, INSERT_VALUES));
        if (y < POINTS - 1)
            PetscCall(MatSetValue(matrix, row, row + POINTS, -1, INSERT_VALUES));
    }
    PetscCall(MatAssemblyBegin(matrix, MAT_FINAL_ASSEMBLY));
    PetscCall(MatAssemblyEnd(matrix, MAT_FINAL_ASSEMBLY));
    return 0;
}

int main(int argc, char **argv)
{
    const PetscInt rows = POINTS * POINTS;
    Mat matrix;
    Vec right, solution;
    KSP solver;
    PC pc;
    PetscInt iterations;
    PetscReal residual, norm;
    PetscCall(PetscInitialize(&argc, &argv, NULL, NULL));
    PetscCall(MatCreateAIJ(PETSC_COMM_WORLD, PETSC_DECIDE, PETSC_DECIDE, rows, rows, 5, NULL, 2,
                           NULL, &matrix));
    PetscCall(fill(matrix));
    PetscCall(MatCreateVecs(matrix, &solution, &right));
    PetscCall(VecSet(right, 1.0 / rows));
    PetscCall(KSPCreate(PETSC_COMM_WORLD, &solver));
    PetscCall(KSPSetOperators(solver, matrix, matrix));
    PetscCall(KSPSetType(solver, KSPCG));
    PetscCall(KSPGetPC(solver, &pc));
    PetscCall(PCSetType(pc, PCSHELL));
    PetscCall(PCShellSetApply(pc, precondition));
    PetscCall(KSPSetTolerances(solver, 1e-8, PETSC_DEFAULT, PETSC_DEFAULT, 2000));
    PetscCall(KSPSolve(solver, right, solution));
    PetscCall(KSPGetIterationNumber(solver, &iterations));
    PetscCall(KSPGetResidualNorm(solver, &residual));
    PetscCall(VecNorm(solution, NORM_2, &norm));
    PetscCall(PetscPrintf(PETSC_COMM_WORLD, "%d iterations, residual %.3e, norm %.9e\n",
                          (int)iterations, residual, norm));
    PetscCall(PetscFinalize());
    return 0;
}
