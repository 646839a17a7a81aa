# SPDX-License-Identifier: Apache-2.0
# compshim: see README.md. `make help` lists the targets.
VERSION := 0.2.0
hash := \#
comma := ,
BUILD ?= build
ifneq ($(words $(BUILD)),1)
$(error BUILD='$(BUILD)' is not the name of one folder, without blanks (make BUILD=build))
endif
# A recipe that begins with $(call say,WORD,FILE) prints WORD and FILE instead of its first command. V=1 prints whole
# commands, make -s nothing.
silent := $(findstring s,$(firstword -$(MAKEFLAGS)))
say = $(if $(V),,@$(if $(silent),,printf '%-4s %s\n' '$(1)' '$(2)' && ))
# Uses as many jobs as there are cores, unless make was given a number. Goals that are not in this list, most of which
# install packages or run something, run one recipe at a time; most of them start another make to build.
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell nproc)
ifneq ($(filter-out all install packages %-programs $(BUILD)/%,$(MAKECMDGOALS)),)
.NOTPARALLEL:
endif
endif
# The installed compilers and headers decide what is built, and are only known after the packages are installed. So
# other goals named with `packages` are made after it, by a make of their own.
beside_packages := $(if $(filter packages,$(MAKECMDGOALS)),$(filter-out packages,$(MAKECMDGOALS)))
ifneq ($(beside_packages),)
.NOTPARALLEL:
.PHONY: packages $(beside_packages)
packages:
	@tools/install-packages.sh build
$(beside_packages): packages
	@$(MAKE) --no-print-directory $@
else

PREFIX ?= /usr/local
DESTDIR ?=
LIBDIR ?= $(PREFIX)/lib
BINDIR ?= $(PREFIX)/bin
MANDIR ?= $(PREFIX)/share/man
DATADIR ?= $(PREFIX)/share/compshim
DOCDIR ?= $(PREFIX)/share/doc/compshim
LIBEXECDIR ?= $(PREFIX)/libexec/compshim
COMPLETIONDIR ?= $(PREFIX)/share/bash-completion/completions
# The recipes of install and uninstall would split a name with a blank.
ifneq ($(filter install uninstall,$(MAKECMDGOALS)),)
$(foreach variable,DESTDIR PREFIX LIBDIR BINDIR MANDIR DATADIR DOCDIR LIBEXECDIR COMPLETIONDIR,$(if \
	$(word 2,x$($(variable))x),$(error $(variable)='$($(variable))' has a blank: name a folder without one)))
endif

CC = gcc
CXX = g++
MPICC ?= mpicc.openmpi
MPICH_CC ?= mpicc.mpich
# Download folder of other MPIs, for make test-mpis.
MPIS ?= $(BUILD)/mpis
OPTIMIZE ?= -O2
# Linked statically, because the preload must not bring libraries into programs.
static_libraries := -l:libinih.a -l:libmd.a
# Without -Werror, because a user's newer compiler may have more warnings. Continuous integration adds it.
WARNINGS ?= -Wall -Wextra
# SANITIZE=1 builds with ASan and UBSan, SANITIZE=thread with TSan; use another BUILD with either. (-Wno-tsan, because
# gcc warns that TSan does not model fences, which order memory shared by processes.) COVERAGE=1 counts which lines run.
ifeq ($(COVERAGE),1)
sanitizers := --coverage -fprofile-update=atomic
else ifeq ($(SANITIZE),1)
sanitizers := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
else ifeq ($(SANITIZE),thread)
sanitizers := -fsanitize=thread -Wno-tsan -fno-omit-frame-pointer
endif
# SIMD=avx2 and SIMD=scalar build for a processor without wider instructions; use another BUILD with either. In `make
# test`, libc and OpenBLAS do not use wider ones either.
ifneq ($(SIMD),)
ifeq ($(filter avx2 scalar,$(SIMD)),)
$(error SIMD='$(SIMD)' is neither avx2 nor scalar)
endif
CPPFLAGS += -DCSHIM_SIMD_BUILT=CSHIM_SIMD_$(if $(filter avx2,$(SIMD)),AVX2,SCALAR)
export SIMD
endif
CFLAGS ?= -g
CPPFLAGS += -D_GNU_SOURCE -I. -I$(BUILD)/generated -MMD -MP
flags = -std=c11 $(OPTIMIZE) $(CFLAGS) -fPIC -fvisibility=hidden -ffp-contract=off $(WARNINGS) \
	$(sanitizers) $(CPPFLAGS)
cxx_flags = -std=c++14 $(filter-out -std=c11,$(flags))
library_ldflags := -shared -Wl,-z,now -Wl,-z,relro -Wl,-z,noexecstack -Wl,-z,nodelete \
	-Wl,--exclude-libs,ALL
ifneq ($(SANITIZE),1)
library_ldflags += -Wl,--no-undefined
endif

pure_sources := $(wildcard codecs/*.c policy/*.c) \
	$(filter-out shim/core/log.c,$(wildcard shim/core/*.c shim/core/algorithms/*.c))
report_sources := $(addprefix shim/report/,ledger.c observed.c trace.c table.c json.c)
front_sources := $(filter-out shim/front/dl_%,$(wildcard shim/front/*.c)) $(addprefix shim/core/,log.c signals.c)
mpi_sources := $(wildcard shim/mpi/*.c)
host_sources := $(wildcard shim/host/*.c)
engine_sources := shim/core/log.c $(addprefix shim/report/,classes.c offer.c job.c residual.c live.c file.c) \
	$(report_sources) $(pure_sources)
nccl_sources := $(wildcard shim/nccl/*.c kernels/*.c) shim/report/process.c $(engine_sources)
gloo_sources := $(wildcard shim/gloo/*.c) shim/report/process.c $(host_sources) $(engine_sources)
tool_sources := $(wildcard tools/*.c tools/*/*.c)
mnist_sources := $(wildcard examples/mnist/*.c)
# The trainer for GPUs has its own device code.
mnist_nccl_sources := $(filter-out examples/mnist/cpu.c,$(mnist_sources))
bench_programs := $(addprefix $(BUILD)/,codec_bench lossless_bench allreduce_bench)
objects = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
objects_for = $(patsubst %.c,$(BUILD)/obj/$(1)/%.o,$(2))
generated := $(addprefix $(BUILD)/generated/,version.h policies_ini.h page_html.h environment_sh.h) \
	$(foreach library,mpi nccl gloo,$(addprefix $(BUILD)/generated/$(library)_,names.h engine.h wrappers.h))

products := $(addprefix $(BUILD)/,libcompshim.so libcompshim_dl.so libcompshim-ompi.so libcompshim-abi.so compshim) \
	$(BUILD)/mnist_train $(bench_programs)

have_cxx := $(shell command -v $(firstword $(CXX)) 2>/dev/null)
ifneq ($(have_cxx),)
products += $(BUILD)/libcompshim-gloo.so
endif
have_mpich := $(shell command -v $(firstword $(MPICH_CC)) 2>/dev/null)
ifneq ($(have_mpich),)
products += $(BUILD)/libcompshim-mpich.so
endif

CUDA_HOME ?= $(or $(patsubst %/bin/nvcc,%,$(shell command -v nvcc)),/usr/local/cuda)
NVCC ?= $(wildcard $(CUDA_HOME)/bin/nvcc)
nccl_header := $(firstword $(wildcard $(CUDA_HOME)/include/nccl.h /usr/include/nccl.h))
ifneq ($(and $(NVCC),$(nccl_header),$(wildcard kernels/*.cu)),)
products += $(BUILD)/libcompshim-nccl.so
have_nccl := yes
ifneq ($(wildcard $(CUDA_HOME)/include/cublas_v2.h),)
products += $(BUILD)/mnist_train_nccl
have_cublas := yes
endif
endif

manual_pages := $(patsubst docs/man/%.in,$(BUILD)/man/%,$(wildcard docs/man/*.in))

.PHONY: all
all: $(products) $(manual_pages)
ifeq ($(have_cxx),)
	@echo "compshim: left out: the engine for gloo (no $(CXX)): tools/install-packages.sh build"
endif
ifeq ($(have_mpich),)
	@echo "compshim: left out: the engine for MPICH (no $(MPICH_CC)): tools/install-packages.sh mpich"
endif
ifeq ($(have_nccl),)
	@echo "compshim: left out: the engine for NCCL (no nvcc, or no nccl.h): tools/get-cuda.sh cuda && make CUDA_HOME=cuda"
else ifeq ($(have_cublas),)
	@echo "compshim: left out: mnist_train_nccl (no cublas_v2.h): tools/get-cuda.sh cuda && make CUDA_HOME=cuda"
endif

.PHONY: help
help:
	@sed -n 's/^## //p' Makefile

## make                 builds into build/ (BUILD=DIR for another folder)
## make packages        installs missing Debian/Ubuntu packages
## make demo            installs missing packages, builds, and compares training with and without the shim; a page with plots
## make demo-gpu        the same with NCCL, on up to 4 GPUs
## make demo-net        the same on four ranks only; fails if hosts with links cannot be emulated
## make test            installs missing packages, builds, and runs every test; TESTS="mpi policy" for some
## make test-roots      make demo and make test in bare Debian 12, 13 and Ubuntu 24.04; ROOTS=debian12 (needs root)
## make test-mpich      the MPI tests again, on MPICH; installs it
## make test-mpis       the same on Open MPI 5, MPICH 5, Intel MPI and the MPI-5 ABI; downloads them from PyPI
## make test-arm        unit tests and jobs of MPI and gloo, cross-built for 64-bit Arm, in an emulator
## make test-large      sums above 2^31 bytes and 2^31 elements; needs 10 GiB of memory
## make fuzz            each fuzz target for SECONDS=60, or RUNS=10000000; TARGET="policy plan" for some
## make legal           random legal MPI programs for SECONDS=60; SEED=N repeats a run
## make explore         random tests for MINUTES=60: fuzz targets, legal programs, planted defects
## make soak            CALLS=1000000 calls of every type; checks that memory stays flat
## make test-clients    real programs with and without the shim; writes docs/programs.md; TORCH_VERSIONS="2.5.1"
## make test-slurm      jobs of a Slurm cluster on this machine, by srun and sbatch (needs root)
## make test-valgrind   the MPI tests and the tests' own programs under valgrind
## make test-tsan       the MPI tests with threads under the thread sanitizer
## make coverage        coverage of lines and branches of core, codecs, policy and engines
## make test-machine    the compiled kernels of every architecture on the host, all cases, and planted defects
## make test-gpu        tests that need an NVIDIA GPU; writes tests/bench/results/gpu.json
## make lint            clang-format, clang-tidy, cppcheck, shell syntax, circles among the modules
## make bench           codec and all-reduce benchmarks of this machine
## make count-instructions  instructions per element of each codec at each SIMD level; ARM=1 for 64-bit Arm, in an emulator
## make simulate        all-reduces of simulated fat trees, by SimGrid; SIMULATE="256x1 256x8" for more ranks
## make study           MNIST accuracy of each codec over several seeds; STUDY="--seeds 5 --resume"
## make install         PREFIX=/usr/local DESTDIR=; make uninstall takes the same
## make dist            reproducible tarballs of the last commit and of its benchmarks' results in build/
## make deb             a Debian package of the last commit in build/, checked by lintian; ARM=1: cross-built for 64-bit Arm
## make wheel           a reproducible wheel for pip in build/, of the built files; ARM=1: for 64-bit Arm, in build-arm/
## make test-wheel      installs the wheel and trains with PyTorch; downloads PyTorch and auditwheel from PyPI
## make test-package    installs, tests and removes the Debian package in a fresh Debian (needs root); ARM=1: in one for
##                      64-bit Arm in an emulator, the wheel too
## make clean
.PHONY: packages
packages: packages-build
packages-%:
	@tools/install-packages.sh $*

# Objects that other programs share -------------------------------------------------------------
# Checks that the packages needed to build are installed, and prints one message if not. Everything that is built
# depends on it, by an order-only prerequisite $(checked).
checked := $(BUILD)/generated/headers
needed_headers := limits.h mpi.h ini.h jansson.h gelf.h cblas.h zlib.h
$(checked):
	@mkdir -p $(@D)
	@printf '%sinclude <%s>\n' $(foreach header,$(needed_headers),'$(hash)' $(header)) >$@.c
	@said=$$($(MPICC) -E -o $@.i $@.c 2>&1) || { \
		said=$$(printf '%s\n' "$$said" | sed -n 's/.*error: //p; s/^[^ ]*sh: [0-9]*: //p' | head -n 1); \
		echo "compshim: packages to build with are missing$${said:+ ($$said)}: make packages installs them" >&2; exit 1; }
	@$(MPICC) -E -dM $@.c | grep -q 'define OPEN_MPI ' || { \
		echo "compshim: MPICC=$(MPICC) is not Open MPI's compiler (MPICH_CC names MPICH's)" >&2; exit 1; }
	@rm $@.i && mv $@.c $@

# Rewritten only if the version changed, so that objects that include it are not compiled again without need.
$(BUILD)/generated/version.h: Makefile | $(checked)
	@mkdir -p $(@D)
	@printf '%sdefine CSHIM_VERSION "%s"\n' "$(hash)" "$(VERSION)" >$@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@

# Converts a text to C string literals, for #include.
literal := sed 's/\\/\\\\/g; s/"/\\"/g; s/.*/"&\\n"/'
$(BUILD)/generated/page_html.h: tools/html/page.html
$(BUILD)/generated/environment_sh.h: tools/compare/environment.sh
$(BUILD)/generated/page_html.h $(BUILD)/generated/environment_sh.h: | $(checked)
	@mkdir -p $(@D)
	$(call say,GEN,$@)$(literal) $< >$@

# The built-in policies: {"@NAME", "text"}, the default first.
policies := policy/default.ini $(filter-out policy/default.ini,$(sort $(wildcard policy/*.ini)))
$(BUILD)/generated/policies_ini.h: $(policies) | $(checked)
	@mkdir -p $(@D)
	$(call say,GEN,$@)for policy in $(policies); do \
		echo "{\"@$$(basename "$$policy" .ini)\","; $(literal) "$$policy"; echo "},"; done >$@

# Generates three headers from the list of a library's functions (functions.awk): the exported wrappers, the types that
# the front shares with the engine, and the functions' names in reports.
define write_front
$(BUILD)/generated/$(1)_%.h: shim/front/$(1).def shim/front/functions.awk | $(checked)
	@mkdir -p $$(@D)
	$$(call say,GEN,$$@)awk -v part=$$* -f shim/front/functions.awk $$< >$$@ || { rm -f $$@; exit 1; }
endef
$(foreach library,mpi nccl gloo,$(eval $(call write_front,$(library))))

$(BUILD)/obj/shim/mpi/%.o $(BUILD)/obj/examples/%.o $(BUILD)/obj/tests/mpi/%.o \
$(BUILD)/obj/tests/legal/%.o $(BUILD)/obj/tests/standin/%.o $(BUILD)/obj/tests/bench/allreduce_bench.o \
$(BUILD)/obj/tests/bench/fft_bench.o $(BUILD)/obj/tests/bench/start_bench.o: compiler = $(MPICC)
$(BUILD)/obj/examples/mnist/%.o: OPTIMIZE = -O3
# The codecs do not trap (codecs/arithmetic.h), so their loops may execute operations that a branch would skip.
$(BUILD)/obj/codecs/%.o: OPTIMIZE = -O3 -fno-trapping-math
compiler = $(CC)

$(BUILD)/obj/%.o: %.c | $(generated) $(checked)
	@mkdir -p $(@D)
	$(call say,CC,$<)$(compiler) $(flags) -c -o $@ $<

# Objects for other MPIs, each in its own folder. The compiler takes MPICH's MPI_STATUSES_IGNORE, address 1, for an
# array that is too short.
mpich_warnings := -Wno-stringop-overflow -Wno-stringop-overread
other_mpis := mpich openmpi5 mpich5 mpi5
compiler_mpich = $(MPICH_CC) $(mpich_warnings)
compiler_openmpi5 = $(MPIS)/openmpi/bin/mpicc
compiler_mpich5 = $(MPIS)/mpich/bin/mpicc $(mpich_warnings)
compiler_mpi5 = $(MPIS)/mpich/bin/mpicc_abi
compiler_abi = $(CC) -Ishim/mpi/abi
define compile_for
$(BUILD)/obj/$(1)/%.o: %.c | $(generated) $(checked)
	@mkdir -p $$(@D)
	$$(call say,CC,$$< for $(1))$$(compiler_$(1)) $$(flags) -c -o $$@ $$<
endef
$(foreach mpi,$(other_mpis) abi,$(eval $(call compile_for,$(mpi))))

# Products --------------------------------------------------------------------------------------
$(BUILD)/libcompshim.so: $(call objects,$(front_sources)) shim/front/exports.map
	$(call say,LD,$@)$(CC) $(flags) $(library_ldflags) -Wl,--version-script=shim/front/exports.map \
		-o $@ $(filter %.o,$^)

# The sanitizers' runtime calls dlsym before instrumented code can run, so libcompshim_dl.so is built without them. It
# is always optimised, because its last call has to be a tail call.
$(BUILD)/libcompshim_dl.so $(BUILD)/obj/shim/front/dl_filter.o: sanitizers := -O2 -foptimize-sibling-calls
$(BUILD)/libcompshim_dl.so: $(BUILD)/obj/shim/front/dl_filter.o shim/front/dl_exports.map
	$(call say,LD,$@)$(CC) $(flags) $(library_ldflags) -Wl,--version-script=shim/front/dl_exports.map \
		-o $@ $(filter %.o,$^)

$(BUILD)/libcompshim-ompi.so: $(call objects,$(mpi_sources) $(host_sources) $(engine_sources)) shim/mpi/exports.map
	$(call say,LD,$@)$(MPICC) $(flags) $(library_ldflags) -Wl,--version-script=shim/mpi/exports.map \
		-o $@ $(filter %.o,$^) $(static_libraries) -lm

# Not linked to an MPI, because MPIs with the same ABI have different file names. Before the front opens one of these
# engines, it makes the symbols of the process's MPI global.
$(BUILD)/libcompshim-mpich.so: $(call objects_for,mpich,$(mpi_sources))
$(BUILD)/libcompshim-abi.so: $(call objects_for,abi,$(mpi_sources))
$(BUILD)/libcompshim-mpich.so $(BUILD)/libcompshim-abi.so: $(call objects,$(host_sources) $(engine_sources)) \
		shim/mpi/exports.map
	$(call say,LD,$@)$(CC) $(flags) $(filter-out -Wl$(comma)--no-undefined,$(library_ldflags)) \
		-Wl,--version-script=shim/mpi/exports.map -o $@ $(filter %.o,$^) $(static_libraries) -lm


# C++ is needed for the layout of gloo's classes only. The engine uses the C++ library of the process. The C
# functions of shim/gloo and the front's for gloo are compiled with -fexceptions, because gloo's exceptions pass through
# them.
$(BUILD)/obj/shim/gloo/%.o $(BUILD)/obj/shim/front/gloo.o: override CFLAGS += -fexceptions
$(BUILD)/obj/shim/gloo/abi.o: sanitizers += $(if $(filter 1,$(SANITIZE)),-fno-sanitize=vptr)
$(BUILD)/obj/shim/gloo/abi.o: shim/gloo/abi.cc | $(generated) $(checked)
	@mkdir -p $(@D)
	$(call say,CXX,$<)$(CXX) $(cxx_flags) -c -o $@ $<

$(BUILD)/libcompshim-gloo.so: $(call objects,$(gloo_sources)) $(BUILD)/obj/shim/gloo/abi.o \
		shim/gloo/exports.map
	$(call say,LD,$@)$(CXX) $(cxx_flags) $(library_ldflags) -Wl,--version-script=shim/gloo/exports.map \
		-o $@ $(filter %.o,$^) $(static_libraries) -lm

$(BUILD)/compshim $(BUILD)/wheel/compshim: $(call objects,$(tool_sources) $(pure_sources))
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(flags) $(rpath) -o $@ $^ $(static_libraries) -ljansson -lelf -lm
# The wheel contains the libraries that the tool needs, directly or indirectly, in its lib folder.
$(BUILD)/wheel/compshim: rpath := -Wl,--disable-new-dtags,-rpath,'$$ORIGIN/../lib'

$(BUILD)/mnist_train: $(call objects,$(mnist_sources))
	$(call say,LD,$@)$(MPICC) $(flags) -o $@ $^ -lopenblas -lz -lm

# CUDA's libraries are outside the loader's search path, so the program gets an rpath.
cuda_libraries = $(realpath $(firstword $(wildcard $(CUDA_HOME)/lib64 $(CUDA_HOME)/lib)))
$(BUILD)/obj/examples/mnist_nccl/gpu.o: examples/mnist_nccl/gpu.cu | $(checked)
	@mkdir -p $(@D)
	$(call say,NVCC,$<)$(NVCC) -ccbin $(MPICC) -DMPICH_SKIP_MPICXX $(nvcc_flags) -O3 -MMD -MP -c -o $@ $<

$(BUILD)/mnist_train_nccl: $(call objects,$(mnist_nccl_sources)) $(BUILD)/obj/examples/mnist_nccl/gpu.o
	$(call say,LD,$@)$(MPICC) $(flags) -o $@ $^ -L$(cuda_libraries) -Wl,-rpath,$(cuda_libraries) \
		-lcudart -lcublas -lnccl -lstdc++ -lz -lm

# bounded_bench is built on request: it needs Debian's libzfp-dev.
$(BUILD)/bounded_bench: bench_libraries := -lzfp
$(BUILD)/codec_bench $(BUILD)/lossless_bench $(BUILD)/bounded_bench: $(BUILD)/%: $(BUILD)/obj/tests/bench/%.o \
		$(call objects,$(pure_sources))
	$(call say,LD,$@)$(CC) $(flags) -o $@ $^ $(static_libraries) $(bench_libraries) -lm

# For tests/bench/instructions.sh.
$(BUILD)/instructions: $(BUILD)/obj/tests/bench/instructions.o $(call objects,$(wildcard codecs/*.c))
	$(call say,LD,$@)$(CC) $(flags) -static -o $@ $^ -lm

# fft_bench is built on request (tests/bench/fft.sh): it needs Debian's libfftw3-dev.
$(BUILD)/fft_bench: bench_libraries := -lfftw3f -lfftw3
$(BUILD)/fft_bench $(BUILD)/start_bench $(BUILD)/allreduce_bench: $(BUILD)/%: $(BUILD)/obj/tests/bench/%.o
	$(call say,LD,$@)$(MPICC) $(flags) -o $@ $^ $(bench_libraries) -lm

# The engine for NCCL. Building it needs nvcc, CUDA's headers and nccl.h; loading it needs no CUDA library.
$(BUILD)/obj/shim/nccl/%.o $(BUILD)/obj/kernels/%.o: CPPFLAGS += -I$(CUDA_HOME)/include

# The first architecture of a family serves all of it: 86 and 89 run code for 80, 103 runs code for 100, 121 for 120.
# (89 has an instruction to convert fp8, but its memory is too slow for that to matter.) Newer architectures compile
# the intermediate code. Products and sums must not be contracted, because results equal the CPU's bit for bit.
CUDA_ARCHITECTURES ?= 75 80 90 100 120
CUDA_INTERMEDIATE ?= 90
nvcc_flags = -std=c++17 --fmad=false --compress-mode=size --threads 2 -I. \
	$(foreach a,$(CUDA_ARCHITECTURES),-gencode arch=compute_$(a)$(comma)code=sm_$(a)) \
	$(foreach a,$(CUDA_INTERMEDIATE),-gencode arch=compute_$(a)$(comma)code=compute_$(a))

kernel_headers := kernels/kernels.h $(wildcard kernels/*.cuh) $(addprefix codecs/,codec.h floats.h formats.def scalar.h)

# The kernels load in drivers from R525 on if CUDA 12's assembler (ptxas-12) is installed beside CUDA 13's compiler;
# otherwise they may need a driver for the compiler's version of CUDA, or a later one.
PTXAS_12 ?= $(wildcard $(CUDA_HOME)/bin/ptxas-12)
fatbin_for_older = kernels/fatbin.sh $(NVCC) $(PTXAS_12) $@ "$(CUDA_ARCHITECTURES)" "$(CUDA_INTERMEDIATE)"

$(BUILD)/kernels/kernels.fatbin: kernels/device.cu $(kernel_headers) kernels/fatbin.sh | $(checked)
	@mkdir -p $(@D)
	$(call say,NVCC,$<)$(if $(PTXAS_12),$(fatbin_for_older),$(NVCC) $(nvcc_flags) -Xptxas -v -fatbin -o $@ $<) \
		2>$(@D)/ptxas.log || { cat $(@D)/ptxas.log; exit 1; }

$(BUILD)/obj/kernels/binary.o: kernels/binary.S $(BUILD)/kernels/kernels.fatbin
	@mkdir -p $(@D)
	$(call say,AS,$<)$(CC) -c -Wa,-I$(BUILD)/kernels -o $@ $<

$(BUILD)/libcompshim-nccl.so: $(call objects,$(nccl_sources)) $(BUILD)/obj/kernels/binary.o \
		shim/nccl/exports.map
	$(call say,LD,$@)$(CC) $(flags) $(library_ldflags) -Wl,--version-script=shim/nccl/exports.map \
		-o $@ $(filter %.o,$^) $(static_libraries) -lm

# The manual pages: prose, and entries from the tables of options and keys.
$(BUILD)/man/%: docs/man/%.in docs/man/page.awk | $(checked)
	@mkdir -p $(@D)
	$(call say,MAN,$@)awk -f docs/man/page.awk $(filter %.c %.def,$^) $< >$@
$(BUILD)/man/compshim.1: $(tool_sources)
$(BUILD)/man/compshim-policy.5: policy/keys.c codecs/formats.def

include tests/tests.mk

# Demo and benchmarks ---------------------------------------------------------------------------
.PHONY: demo
demo: packages-demo
	@$(MAKE) --no-print-directory all
	@BUILD=$(BUILD) examples/demo.sh

.PHONY: demo-gpu
demo-gpu: packages-build
	@$(MAKE) --no-print-directory all
	@BUILD=$(BUILD) examples/demo_gpu.sh

.PHONY: demo-net
demo-net: packages-demo
	@$(MAKE) --no-print-directory all
	@BUILD=$(BUILD) DEMO_NAME=demo-net DEMO_LINK=$${DEMO_LINK:-1gbit} DEMO_RANKS=$${DEMO_RANKS:-4} examples/demo.sh

.PHONY: bench
bench: packages-bench
	@$(MAKE) --no-print-directory all
	@BUILD=$(BUILD) tests/bench/bench.sh

.PHONY: count-instructions
count-instructions: packages-$(if $(ARM),arm,build)
ifeq ($(ARM),)
	@$(MAKE) --no-print-directory -s $(BUILD)/instructions
	@tests/bench/instructions.sh $(BUILD)/instructions
else
	@BUILD=$(BUILD) tests/arm/make.sh $(BUILD)-arm/instructions
	@tests/bench/instructions.sh $(BUILD)-arm/instructions
endif

.PHONY: study
study: packages-bench
	@$(MAKE) --no-print-directory all
	@BUILD=$(BUILD) tests/study/study.sh $(STUDY)

# Installation ----------------------------------------------------------------------------------
# Engines and examples are installed if they were built. The benchmark and the examples are not user commands, so they
# go into LIBEXECDIR.
installed_libraries := libcompshim.so libcompshim-ompi.so libcompshim-mpich.so libcompshim-abi.so \
	libcompshim-nccl.so libcompshim-gloo.so libcompshim_dl.so
installed_programs := allreduce_bench mnist_train mnist_train_nccl
installed_data := $(policies) examples/policy.ini
# The documents keep their folders, because they refer to each other.
installed_documents := README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE tests/README.md \
	examples/policy.ini examples/slurm/train.sbatch $(wildcard docs/*.md docs/*.svg docs/man/*.in)
manual_path = man$(patsubst .%,%,$(suffix $(1)))/$(notdir $(1))

.PHONY: install
install: all
	@install -d $(addprefix $(DESTDIR),$(LIBDIR) $(BINDIR) $(LIBEXECDIR) $(DATADIR) $(DOCDIR) \
		$(COMPLETIONDIR) $(sort $(dir $(foreach page,$(manual_pages),$(MANDIR)/$(call manual_path,$(page))))))
	$(call say,INST,$(DESTDIR)$(LIBDIR))for file in $(installed_libraries); do \
		[ ! -e $(BUILD)/$$file ] || install -m 644 $(BUILD)/$$file $(DESTDIR)$(LIBDIR) || exit; \
	done
	$(call say,INST,$(DESTDIR)$(LIBEXECDIR))for file in $(installed_programs); do \
		[ ! -e $(BUILD)/$$file ] || install -m 755 $(BUILD)/$$file $(DESTDIR)$(LIBEXECDIR) || exit; \
	done
	$(call say,INST,$(DESTDIR)$(BINDIR))install -m 755 $(BUILD)/compshim $(DESTDIR)$(BINDIR)
	$(call say,INST,$(DESTDIR)$(MANDIR))$(foreach page,$(manual_pages),install -m 644 $(page) \
		$(DESTDIR)$(MANDIR)/$(call manual_path,$(page)) &&) :
	$(call say,INST,$(DESTDIR)$(COMPLETIONDIR))install -m 644 packaging/completion/compshim $(DESTDIR)$(COMPLETIONDIR)
	$(call say,INST,$(DESTDIR)$(DATADIR))install -m 644 $(installed_data) $(DESTDIR)$(DATADIR)
	$(call say,INST,$(DESTDIR)$(DOCDIR))for file in $(installed_documents); do \
		install -D -m 644 $$file $(DESTDIR)$(DOCDIR)/$$file || exit; \
	done

.PHONY: uninstall
uninstall:
	@[ -e $(DESTDIR)$(LIBDIR)/libcompshim.so ] || [ -e $(DESTDIR)$(BINDIR)/compshim ] || { \
		echo "$(DESTDIR)$(LIBDIR) has no libcompshim.so: take the PREFIX and DESTDIR of make install" >&2; exit 1; }
	$(call say,RM,$(DESTDIR)$(PREFIX))rm -f $(addprefix $(DESTDIR)$(LIBDIR)/,$(installed_libraries)) $(DESTDIR)$(BINDIR)/compshim \
		$(foreach page,$(manual_pages),$(DESTDIR)$(MANDIR)/$(call manual_path,$(page))) \
		$(DESTDIR)$(COMPLETIONDIR)/compshim $(addprefix $(DESTDIR)$(LIBEXECDIR)/,$(installed_programs)) \
		$(addprefix $(DESTDIR)$(DATADIR)/,$(notdir $(installed_data))) $(addprefix $(DESTDIR)$(DOCDIR)/,$(installed_documents))
	@rmdir --ignore-fail-on-non-empty $(addprefix $(DESTDIR)$(DOCDIR)/,docs/man docs tests examples/slurm examples) \
		$(addprefix $(DESTDIR),$(LIBEXECDIR) $(DATADIR) $(DOCDIR)) 2>/dev/null || :

# Packages --------------------------------------------------------------------------------------
.PHONY: dist
dist:
	@mkdir -p $(BUILD)
	$(call say,GEN,$(BUILD)/compshim-$(VERSION).tar.gz)git archive --prefix=compshim-$(VERSION)/ -o $(BUILD)/compshim-$(VERSION).tar HEAD && \
		gzip -9nf $(BUILD)/compshim-$(VERSION).tar
	$(call say,GEN,$(BUILD)/compshim-$(VERSION)-results.tar.gz)git archive --prefix=compshim-$(VERSION)-results/ \
		-o $(BUILD)/compshim-$(VERSION)-results.tar HEAD tests/bench/results && gzip -9nf $(BUILD)/compshim-$(VERSION)-results.tar

.PHONY: deb
deb: packages-deb $(if $(ARM),packages-arm)
	@BUILD=$(BUILD) ARM=$(ARM) packaging/make-deb.sh $(VERSION)

.PHONY: wheel
ifeq ($(ARM),)
wheel: packages-wheel
	@$(MAKE) --no-print-directory all $(BUILD)/wheel/compshim
	$(call say,GEN,$(BUILD)/wheel)CC='$(CC)' python3 packaging/make-wheel.py $(VERSION) $(BUILD)
else
wheel: packages-arm
	@BUILD=$(BUILD) tests/arm/make.sh wheel ARM=
endif

.PHONY: test-wheel
test-wheel: packages-wheel
	@BUILD=$(BUILD) bash tests/package/wheel.sh

.PHONY: test-package
test-package: packages-package deb $(if $(ARM),wheel)
	@BUILD=$(BUILD) ARM=$(ARM) bash tests/package/clean_root.sh

.PHONY: clean
clean:
	rm -rf $(BUILD)

-include $(shell [ -d $(BUILD)/obj ] && find $(BUILD)/obj -name '*.d')
.SECONDARY:
.DELETE_ON_ERROR:
endif
