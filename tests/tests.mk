# SPDX-License-Identifier: Apache-2.0
# Part of the Makefile: the test programs, the tests and the fuzz targets.
unit_tests := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(wildcard tests/unit/test_*.c))
mpi_tests := $(patsubst tests/mpi/%.c,$(BUILD)/tests/mpi_%,$(wildcard tests/mpi/*.c))
standins := $(patsubst tests/standin/%.c,$(BUILD)/tests/standin_%.so,$(wildcard tests/standin/*.c))
fuzz_targets := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
fuzz_sources := tests/fuzz/fuzz.c examples/mnist/idx.c $(report_sources) $(pure_sources) \
	$(addprefix tools/lib/,json.c options.c table.c tool.c) \
	$(wildcard tools/report/*.c tools/html/*.c tools/elf/*.c)
fuzz_libraries := $(static_libraries) -ljansson -lelf -lz -lm

$(unit_tests): $(BUILD)/obj/tests/unit/unit.o
$(BUILD)/tests/test_operations: $(BUILD)/obj/tests/unit/machine.o
$(BUILD)/tests/test_draw: $(BUILD)/obj/shim/gloo/draw.o
$(BUILD)/tests/test_mnist_%: $(BUILD)/obj/tests/unit/test_mnist_%.o \
		$(call objects,$(filter-out examples/mnist/main.c,$(mnist_sources)))
	@mkdir -p $(@D)
	$(call say,LD,$@)$(MPICC) $(flags) -o $@ $^ -lcmocka -lopenblas -lz -lm

$(BUILD)/tests/test_elf_%: $(BUILD)/obj/tests/unit/test_elf_%.o \
		$(call objects,$(wildcard tools/elf/*.c) tools/lib/tool.c shim/core/words.c)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(flags) -o $@ $^ -lcmocka -lelf

$(BUILD)/tests/test_rendezvous_%: $(BUILD)/obj/tests/unit/test_rendezvous_%.o \
		$(call objects,$(wildcard shim/nccl/rendezvous*.c) shim/report/offer.c $(pure_sources) \
		shim/core/log.c)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(flags) -o $@ $^ $(static_libraries) -lcmocka -lm

$(BUILD)/tests/test_timeline: $(call objects,tests/unit/test_timeline.c shim/nccl/timeline.c $(pure_sources) \
		shim/core/log.c)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(flags) -o $@ $^ $(static_libraries) -lcmocka -lm

$(BUILD)/tests/test_bounce: $(call objects,tests/unit/test_bounce.c shim/host/bounce.c)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(flags) -o $@ $^ -lcmocka

$(BUILD)/tests/test_classes: $(call objects,tests/unit/test_classes.c shim/report/classes.c \
		$(pure_sources) shim/core/log.c $(report_sources))
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(flags) -o $@ $^ $(static_libraries) -lcmocka -ljansson -lm

$(BUILD)/tests/test_report_file: $(call objects,tests/unit/test_report_file.c shim/report/file.c \
		shim/core/environment.c $(pure_sources) shim/core/log.c $(report_sources))
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(flags) -o $@ $^ $(static_libraries) -lcmocka -ljansson -lm

$(BUILD)/tests/test_tune: $(BUILD)/obj/tests/unit/test_tune.o \
		$(call objects,tools/tune/decide.c tools/lib/table.c tools/lib/tool.c $(pure_sources))
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(flags) -o $@ $^ $(static_libraries) -lcmocka -lm

$(BUILD)/tests/test_%: $(BUILD)/obj/tests/unit/test_%.o \
		$(call objects,$(pure_sources) shim/core/log.c $(report_sources))
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(flags) -o $@ $^ $(static_libraries) -lcmocka -ljansson -lm

$(BUILD)/tests/mpi_%: $(BUILD)/obj/tests/mpi/%.o \
		$(call objects,$(filter codecs/% policy/names.c,$(pure_sources)))
	@mkdir -p $(@D)
	$(call say,LD,$@)$(MPICC) $(flags) -o $@ $^ -lm

# The program that runs random legal MPI programs (tests/legal).
$(BUILD)/tests/mpi_legal: $(call objects,tests/legal/legal.c tests/legal/call.c tests/legal/script.c)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(MPICC) $(flags) -o $@ $^ -lm

$(BUILD)/tests/standin_%.so: $(BUILD)/obj/tests/standin/%.o
	@mkdir -p $(@D)
	$(call say,LD,$@)$(MPICC) $(flags) -shared -o $@ $^

# The MPI tests for other MPIs, each in a folder that also has the preload's files.
mpi_programs = $(addprefix $(BUILD)/$(1)/,$(mpi_tests:$(BUILD)/%=%) $(standins:$(BUILD)/%=%) \
	libcompshim.so libcompshim-$(2).so compshim allreduce_bench)
engine_mpich := mpich
engine_openmpi5 := ompi
engine_mpich5 := mpich
engine_mpi5 := abi
define link_for
$(BUILD)/$(1)/tests/mpi_%: $(BUILD)/obj/$(1)/tests/mpi/%.o \
		$(call objects,$(filter codecs/% policy/names.c,$(pure_sources)))
	@mkdir -p $$(@D)
	$$(call say,LD,$$@)$$(compiler_$(1)) $$(flags) -o $$@ $$^ -lm

$(BUILD)/$(1)/tests/mpi_legal: $(addprefix $(BUILD)/obj/$(1)/tests/legal/,legal.o call.o) \
		$(call objects,tests/legal/script.c)
	@mkdir -p $$(@D)
	$$(call say,LD,$$@)$$(compiler_$(1)) $$(flags) -o $$@ $$^ -lm

$(BUILD)/$(1)/tests/standin_%.so: $(BUILD)/obj/$(1)/tests/standin/%.o
	@mkdir -p $$(@D)
	$$(call say,LD,$$@)$$(compiler_$(1)) $$(flags) -shared -o $$@ $$^

$(BUILD)/$(1)/allreduce_bench: $(BUILD)/obj/$(1)/tests/bench/allreduce_bench.o
	@mkdir -p $$(@D)
	$$(call say,LD,$$@)$$(compiler_$(1)) $$(flags) -o $$@ $$^ -lm

$(addprefix $(BUILD)/$(1)/,libcompshim.so libcompshim-$(engine_$(1)).so compshim): $(BUILD)/$(1)/%: $(BUILD)/%
	@mkdir -p $$(@D)
	@install $$< $$@

.PHONY: test-$(1)-programs
test-$(1)-programs: $(call mpi_programs,$(1),$(engine_$(1)))
endef
$(foreach mpi,$(other_mpis),$(eval $(call link_for,$(mpi))))

# Stand-ins for the CUDA driver and NCCL, for tests without a GPU. Of CUDA and NCCL they need only the headers.
standin_nccl := $(addprefix $(BUILD)/tests/standin_nccl/,libcuda.so.1 libnccl.so.2)
standin_nvml := $(BUILD)/tests/standin_nccl/libnvidia-ml.so.1
$(BUILD)/obj/tests/nccl/%.o: CPPFLAGS += -isystem $(CUDA_HOME)/include
standin_link = $(CC) $(flags) $(library_ldflags) -Wl,-soname,$(@F) -o $@ $^ -lm

$(BUILD)/tests/standin_nccl/libcuda.so.1: $(call objects,kernels/kernels.c \
		$(wildcard tests/nccl/standin/cuda_*.c) $(filter codecs/%,$(pure_sources)))
	@mkdir -p $(@D)
	$(call say,LD,$@)$(standin_link)

$(BUILD)/tests/standin_nccl/libnccl.so.2: $(call objects,$(wildcard tests/nccl/standin/nccl_*.c))
	@mkdir -p $(@D)
	$(call say,LD,$@)$(standin_link)

$(standin_nvml): $(call objects,tests/nccl/standin/nvml.c)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(standin_link)

.PHONY: standin-nccl
standin-nccl: $(standin_nccl) $(standin_nvml)

# Stand-ins for CUDA's runtime and cuBLAS, for mnist_train_nccl, with the symbol versions of the real libraries.
standin_runtime := $(addprefix $(BUILD)/tests/standin_runtime/,libcudart.so.13 libcublas.so.13)
$(BUILD)/obj/tests/nccl/runtime/launch.o: tests/nccl/runtime/launch.cc | $(checked)
	@mkdir -p $(@D)
	$(call say,CXX,$<)$(CXX) -std=c++17 -O2 -g -fPIC -fvisibility=hidden -ffp-contract=off $(WARNINGS) $(sanitizers) $(CPPFLAGS) -c -o $@ $<

$(standin_runtime): tests/nccl/runtime/exports.map $(BUILD)/tests/standin_nccl/libcuda.so.1
	@mkdir -p $(@D)
	@sed 's/VERSION/$(@F)/' $< >$(@D)/$(@F:.so.13=).map
	$(call say,LD,$@)$(CXX) $(sanitizers) $(library_ldflags) -Wl,-soname,$(@F) -Wl,--version-script=$(@D)/$(@F:.so.13=).map \
		-o $@ $(filter %.o,$^) $(BUILD)/tests/standin_nccl/libcuda.so.1 -lopenblas
$(BUILD)/tests/standin_runtime/libcudart.so.13: $(addprefix $(BUILD)/obj/tests/nccl/runtime/,cudart.o launch.o)
$(BUILD)/tests/standin_runtime/libcublas.so.13: $(BUILD)/obj/tests/nccl/runtime/cublas.o

nccl_tests := $(patsubst tests/nccl/%.c,$(BUILD)/tests/nccl_%,$(wildcard tests/nccl/*.c))

# Tests of the kernels against the CPU's codecs: the kernels' source on the host, and on a GPU.
warp_flags = -std=c++17 -O1 -g -ffp-contract=off $(WARNINGS) -Wno-unknown-pragmas $(sanitizers) \
	$(CPPFLAGS)
$(BUILD)/obj/tests/nccl/kernels/%.o: tests/nccl/kernels/%.cc | $(checked)
	@mkdir -p $(@D)
	$(call say,CXX,$<)$(CXX) $(warp_flags) -include tests/nccl/kernels/warp.h -c -o $@ $<

kernel_cases := $(addprefix tests/nccl/kernels/,cases.c cast_cases.c sum_cases.c large_cases.c products.c arrays.c)
$(BUILD)/tests/kernels_host: $(call objects,$(kernel_cases) kernels/kernels.c \
		$(filter codecs/%,$(pure_sources))) \
		$(addprefix $(BUILD)/obj/tests/nccl/kernels/,host.o warp.o)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CXX) $(sanitizers) -o $@ $^ -lm

$(BUILD)/tests/kernels_gpu $(BUILD)/tests/kernels_bandwidth: $(BUILD)/tests/kernels_%: \
		$(BUILD)/obj/tests/nccl/kernels/gpu.o $(call objects,$(wildcard kernels/*.c) \
		$(filter codecs/%,$(pure_sources))) $(BUILD)/obj/kernels/binary.o
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(flags) -o $@ $^ -lm
$(BUILD)/tests/kernels_gpu: $(call objects,$(kernel_cases))
$(BUILD)/tests/kernels_bandwidth: $(BUILD)/obj/tests/nccl/kernels/bandwidth.o

# Links the NCCL tests to the stand-ins. These have the names of the real libraries, which tests/nccl/gpu.sh puts into
# LD_LIBRARY_PATH instead.
$(BUILD)/tests/nccl_%: $(BUILD)/obj/tests/nccl/%.o $(standin_nccl) \
		$(call objects,$(filter codecs/% policy/names.c,$(pure_sources)))
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(flags) -o $@ $(filter %.o,$^) -Wl,--as-needed $(standin_nccl) -lm

# Programs that use gloo. They are in C; job.cc is their interface to gloo, which is C++.
gloo_header := $(wildcard /usr/include/gloo/allreduce.h)
gloo_tests := $(patsubst tests/gloo/%.c,$(BUILD)/tests/gloo_%,$(wildcard tests/gloo/*.c))
# The engine calls a reduction function with floats, to find out what it computes. A product of integers overflows then.
ifeq ($(SANITIZE),1)
$(BUILD)/obj/tests/gloo/job.o: sanitizers += -fno-sanitize=signed-integer-overflow
endif
$(BUILD)/obj/tests/gloo/%.o: tests/gloo/%.cc | $(checked)
	@mkdir -p $(@D)
	$(call say,CXX,$<)$(CXX) -std=c++17 $(OPTIMIZE) $(CFLAGS) $(WARNINGS) $(sanitizers) $(CPPFLAGS) -c -o $@ $<

$(BUILD)/tests/gloo_%: $(BUILD)/obj/tests/gloo/%.o $(BUILD)/obj/tests/gloo/job.o \
		$(call objects,$(filter codecs/% policy/names.c,$(pure_sources)))
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CXX) $(sanitizers) -o $@ $^ -lgloo -lm

# Built on request (tests/bench/gloo.sh).
$(BUILD)/gloo_loopback_bench: $(BUILD)/obj/tests/bench/gloo_loopback_bench.o $(BUILD)/obj/tests/gloo/job.o
	$(call say,LD,$@)$(CXX) $(sanitizers) -o $@ $^ -lgloo -lm

# A stand-in for libgloo with another memory layout.
$(BUILD)/tests/standin_gloo.so: $(BUILD)/obj/tests/gloo/standin/gloo.o
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(flags) $(library_ldflags) -Wl,-soname,$(@F) -o $@ $^

$(BUILD)/tests/standin_gloo_user.so: $(BUILD)/obj/tests/gloo/standin/user.o $(BUILD)/tests/standin_gloo.so
	$(call say,LD,$@)$(CC) $(flags) $(library_ldflags) -Wl,-soname,$(@F) -Wl,-rpath,'$$ORIGIN' -o $@ $^

$(BUILD)/tests/gloo_layout: $(BUILD)/obj/tests/gloo/standin/layout.o $(BUILD)/tests/standin_gloo.so
	$(call say,LD,$@)$(CC) $(flags) -Wl,-rpath,'$$ORIGIN' -o $@ $^

$(BUILD)/tests/fuzz_%: $(BUILD)/obj/tests/fuzz/fuzz_%.o \
		$(call objects,tests/fuzz/replay.c $(fuzz_sources))
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(flags) -o $@ $^ $(fuzz_libraries)

.PHONY: test
test: packages-test
	@$(MAKE) --no-print-directory test-programs
	@BUILD=$(BUILD) SANITIZE=$(SANITIZE) CUDA_HOME=$(CUDA_HOME) tests/run.sh $(TESTS)

.PHONY: test-programs
test-programs: $(BUILD)/tests/kernels_host
test-programs: all $(unit_tests) $(mpi_tests) $(standins) $(fuzz_targets:%=$(BUILD)/tests/fuzz_%)
ifneq ($(nccl_header),)
test-programs: $(nccl_tests) $(standin_nvml)
endif
ifneq ($(gloo_header),)
test-programs: $(gloo_tests) $(BUILD)/tests/gloo_layout $(BUILD)/tests/standin_gloo_user.so
endif
ifneq ($(have_cublas),)
test-programs: $(standin_runtime)
endif

.PHONY: test-mpich
test-mpich: packages-mpich packages-test
	@$(MAKE) --no-print-directory test-mpich-programs
	@BUILD=$(BUILD)/mpich MPI=mpich SANITIZE=$(SANITIZE) tests/run.sh mpi/

# Each target downloads the MPIs that it needs. All but test-mpi-header run the MPI tests. Programs for MPICH also run
# on Intel MPI, and those for the standard ABI on both.
mpi_runs := openmpi5 mpich5 intel mpi5-mpich mpi5-intel
.PHONY: test-mpis test-mpi-header $(mpi_runs:%=test-mpi-%)
test-mpis: test-mpi-header $(mpi_runs:%=test-mpi-%)
get-mpi-%:
	@tools/get-mpi.sh $* $(MPIS)/$*

test-mpi-header: get-mpi-mpich
	@BUILD=$(BUILD) MPI_HOME=$(abspath $(MPIS))/mpich bash tests/mpi/abi.sh

test-mpi-openmpi5: get-mpi-openmpi
test-mpi-openmpi5: run = openmpi5 openmpi openmpi
test-mpi-mpich5: run = mpich5 mpich mpich
test-mpi-intel: run = mpich5 mpich intel
test-mpi-mpi5-mpich: run = mpi5 mpich mpich
test-mpi-mpi5-intel: run = mpi5 mpich intel
test-mpi-mpich5 test-mpi-mpi5-mpich: get-mpi-mpich
test-mpi-intel test-mpi-mpi5-intel: get-mpi-mpich get-mpi-intel
# The words of $(run): the programs' folder, the family, and the MPI that runs them.
$(mpi_runs:%=test-mpi-%): packages-mpich packages-test
	@$(MAKE) --no-print-directory test-$(word 1,$(run))-programs
	@echo "== the MPI tests of $(word 1,$(run)) on $(MPIS)/$(word 3,$(run))"
	@BUILD=$(BUILD)/$(word 1,$(run)) MPI=$(word 2,$(run)) MPI_HOME=$(abspath $(MPIS))/$(word 3,$(run)) \
		SANITIZE=$(SANITIZE) tests/run.sh mpi/

.PHONY: test-arm
test-arm:
	@BUILD=$(BUILD) tests/arm/run.sh

.PHONY: test-large
test-large: packages-test
	@$(MAKE) --no-print-directory test-programs
	@BUILD=$(BUILD) bash tests/mpi/large.sh

# The MPI engine with the simulator's mpi.h. The linker replaces functions that take processor time, or that behave
# differently in SMPI, by those of simulate.c.
compiler_smpi = smpicc
$(eval $(call compile_for,smpi))
simulated := $(addprefix cshim_,encode encode_with decode reduce reduce_with add header_check) \
	mmap shmget PMPI_Test PMPI_Comm_create
$(BUILD)/tests/simulate: $(call objects_for,smpi,$(filter-out %/announce.c,$(mpi_sources)) $(host_sources) \
			tests/simulate/simulate.c) \
		$(call objects,$(engine_sources))
	@mkdir -p $(@D)
	smpicc $(flags) $(simulated:%=-Wl,--wrap=%) -o $@ $^ $(static_libraries) -lm

$(BUILD)/tests/plan_figures: $(call objects,tests/simulate/plan_figures.c $(pure_sources))
	@mkdir -p $(@D)
	$(CC) $(flags) -o $@ $^ $(static_libraries) -lm

# SIMULATE="256x1 256x8" selects other shapes: ranks, and ranks per node.
SIMULATE ?= 16x1 64x8 64x1
.PHONY: simulate
simulate: packages-simulate
	@$(MAKE) --no-print-directory $(parallel) $(BUILD)/tests/simulate $(BUILD)/tests/plan_figures
	@BUILD=$(BUILD) python3 tests/simulate/simulate.py check
	@BUILD=$(BUILD) python3 tests/simulate/simulate.py run $(SIMULATE)
	@python3 tests/simulate/simulate.py table tests/bench/results/simulate.json
	@$(BUILD)/tests/plan_figures

.PHONY: soak
soak: packages-test
	@$(MAKE) --no-print-directory test-programs
	@BUILD=$(BUILD) SANITIZE=$(SANITIZE) CALLS=$(CALLS) bash tests/mpi/soak.sh

.PHONY: legal
legal: packages-test
	@$(MAKE) --no-print-directory all $(BUILD)/tests/mpi_legal $(BUILD)/tests/standin_nodes.so
	@BUILD=$(BUILD) bash tests/legal/legal.sh $(SECONDS) $(SEED)

MINUTES = 60
.PHONY: explore
explore: packages-fuzz packages-test
	@$(MAKE) --no-print-directory test-programs fuzz-programs
	@BUILD=$(BUILD) bash tests/explore.sh $(MINUTES) $(SEED)

.PHONY: test-clients
test-clients: packages-clients
	@$(MAKE) --no-print-directory all
	@BUILD=$(BUILD) TORCH_VERSIONS="$(TORCH_VERSIONS)" bash tests/clients/run.sh

.PHONY: test-slurm
test-slurm: packages-slurm
	@$(MAKE) --no-print-directory test-programs
	@BUILD=$(BUILD) bash tests/slurm/test_slurm.sh

.PHONY: test-roots
test-roots: packages-roots
	@BUILD=$(BUILD) bash tests/roots/roots.sh

.PHONY: test-gpu
test-gpu:
	@BUILD=$(BUILD) CUDA_HOME=$(CUDA_HOME) bash tests/nccl/gpu.sh

.PHONY: test-machine
test-machine: $(BUILD)/tests/kernels_host $(if $(NVCC),$(BUILD)/kernels/kernels.fatbin)
	@BUILD=$(BUILD) CUDA_HOME=$(CUDA_HOME) SANITIZE=$(SANITIZE) bash tests/nccl/machine/all.sh

.PHONY: test-valgrind
test-valgrind: packages-test
	@$(MAKE) --no-print-directory test-programs
	@BUILD=$(BUILD) bash tests/valgrind.sh
	@BUILD=$(BUILD) bash tests/mpi/valgrind.sh

.PHONY: coverage
coverage: packages-coverage packages-test
	@$(MAKE) --no-print-directory BUILD=$(BUILD)-coverage COVERAGE=1 OPTIMIZE=-O1 test-programs
	@BUILD=$(BUILD)-coverage CUDA_HOME=$(CUDA_HOME) bash tests/coverage.sh $(TESTS)

.PHONY: test-tsan
test-tsan: packages-test
	@$(MAKE) --no-print-directory BUILD=$(BUILD)-tsan SANITIZE=thread test-programs
	@BUILD=$(BUILD)-tsan SANITIZE=thread bash tests/mpi/tsan.sh
	@BUILD=$(BUILD)-tsan SANITIZE=thread bash tests/gloo/tsan.sh

.PHONY: lint
lint: packages-lint
	@$(MAKE) --no-print-directory $(generated)
	@BUILD=$(BUILD) MAKE="$(MAKE)" tests/lint.sh

# Fuzzing ---------------------------------------------------------------------------------------
FUZZ_CC ?= clang
SECONDS = 60
RUNS =
TARGET = $(fuzz_targets)
fuzz_flags = -std=c11 -O2 -g -ffp-contract=off $(WARNINGS) -fsanitize=address,undefined \
	-fno-sanitize-recover=all -fno-omit-frame-pointer $(CPPFLAGS)
# Unsigned arithmetic in the planner must not overflow. The codecs compare no words that a fuzzer would have to guess,
# and tracing the comparisons of their loops would take most of the time.
$(addprefix $(BUILD)/obj/fuzz/shim/core/,plan.o plan_bytes.o): fuzz_flags += -fsanitize=unsigned-integer-overflow
$(BUILD)/obj/fuzz/codecs/%.o $(BUILD)/obj/fuzz/tests/fuzz/%.o: fuzz_coverage := -fno-sanitize-coverage=trace-cmp

$(BUILD)/obj/fuzz/%.o: %.c | $(generated) $(checked)
	@mkdir -p $(@D)
	$(call say,CC,$< for fuzzing)$(FUZZ_CC) $(fuzz_flags) -fsanitize=fuzzer-no-link $(fuzz_coverage) -c -o $@ $<

$(BUILD)/fuzz/fuzz_%: $(BUILD)/obj/fuzz/tests/fuzz/fuzz_%.o \
		$(patsubst %.c,$(BUILD)/obj/fuzz/%.o,$(fuzz_sources))
	@mkdir -p $(@D)
	$(call say,LD,$@)$(FUZZ_CC) $(fuzz_flags) -fsanitize=fuzzer -o $@ $^ $(fuzz_libraries)

.PHONY: fuzz-programs
fuzz-programs: $(fuzz_targets:%=$(BUILD)/fuzz/fuzz_%)

.PHONY: fuzz
fuzz: packages-fuzz
	@$(MAKE) --no-print-directory fuzz-programs
	@BUILD=$(BUILD) tests/fuzz/run.sh $(if $(RUNS),runs $(RUNS),seconds $(SECONDS)) $(TARGET)
