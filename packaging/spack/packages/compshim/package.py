# SPDX-License-Identifier: Apache-2.0
"""Spack's recipe for compshim. In a checkout:

    spack repo add packaging/spack
    spack dev-build compshim@0.2.0
"""
from spack.package import *


class Compshim(MakefilePackage):
    """A library to preload that makes the all-reduces of unmodified MPI and PyTorch programs smaller."""

    license("Apache-2.0")

    # Built from a checkout; a release adds its url and sha256 here.
    version("0.2.0")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("gmake", type="build")
    # An engine supports one MPI: programs have to use the same MPI, or the standard ABI of MPI 5, whose engine is
    # built without an MPI.
    depends_on("openmpi@3:5")
    # Linked into the engine, because it must not bring libraries into the programs that it is loaded into.
    depends_on("libinih default_library=static", type=("build", "link"))
    depends_on("libmd", type=("build", "link"))
    depends_on("jansson")
    depends_on("elfutils")
    depends_on("openblas")
    depends_on("zlib-api")

    def edit(self, spec, prefix):
        # Built and installed with the same settings, so that nothing is built again.
        self.settings = [
            f"PREFIX={prefix}",
            f"CC={spack_cc}",
            f"MPICC={spec['mpi'].mpicc}",
            "WARNINGS=",
        ]

    @property
    def build_targets(self):
        return self.settings

    @property
    def install_targets(self):
        return self.settings + ["install"]

    def check(self):
        compshim = Executable(join_path(self.stage.source_path, "build", "compshim"))
        compshim("--version")
