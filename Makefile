# SPDX-License-Identifier: Apache-2.0
# compshim: see README.md. `make help` lists the targets.
VERSION := 0.1.0
hash := \#
BUILD ?= build
PREFIX ?= /usr/local
DESTDIR ?=
LIBDIR ?= $(PREFIX)/lib
BINDIR ?= $(PREFIX)/bin
MANDIR ?= $(PREFIX)/share/man
DATADIR ?= $(PREFIX)/share/compshim
DOCDIR ?= $(PREFIX)/share/doc/compshim

CC = gcc
MPICC ?= mpicc.openmpi
OPTIMIZE ?= -O2
WARNINGS ?= -Wall -Wextra -Werror
# SANITIZE=1 builds everything with ASan and UBSan, SANITIZE=thread with TSan (use another BUILD with
# either).
ifeq ($(SANITIZE),1)
sanitizers := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
else ifeq ($(SANITIZE),thread)
sanitizers := -fsanitize=thread -fno-omit-frame-pointer
endif
CFLAGS ?= -g
CPPFLAGS += -D_GNU_SOURCE -I. -I$(BUILD)/generated -MMD -MP
flags = -std=c11 $(OPTIMIZE) $(CFLAGS) -fPIC -fvisibility=hidden -ffp-contract=off $(WARNINGS) \
	$(sanitizers) $(CPPFLAGS)
library_ldflags := -shared -Wl,-z,now -Wl,-z,relro -Wl,-z,noexecstack -Wl,-z,nodelete \
	-Wl,--exclude-libs,ALL
ifneq ($(SANITIZE),1)
library_ldflags += -Wl,--no-undefined
endif

pure_sources := $(wildcard codecs/*.c policy/*.c) shim/plan.c shim/header.c shim/layout.c shim/watch.c
report_sources := $(addprefix shim/,ledger.c report.c report_json.c)
front_sources := $(wildcard shim/front/*.c) shim/log.c
ompi_sources := $(wildcard shim/mpi/*.c) shim/log.c $(report_sources) $(pure_sources)
tool_sources := $(wildcard tools/*.c)
mnist_sources := $(wildcard examples/mnist/*.c)
unit_tests := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(wildcard tests/unit/test_*.c))
mpi_tests := $(patsubst tests/mpi/%.c,$(BUILD)/tests/mpi_%,$(wildcard tests/mpi/*.c))
fuzz_targets := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
fuzz_sources := tests/fuzz/fuzz.c examples/mnist/idx.c $(report_sources) $(pure_sources) \
	$(addprefix tools/,ledger_file.c options.c report.c table.c tool.c) $(wildcard tools/elf*.c)
fuzz_libraries := -l:libinih.a -ljansson -lelf -lz -lm
standins := $(patsubst tests/standin/%.c,$(BUILD)/tests/standin_%.so,$(wildcard tests/standin/*.c))
bench_programs := $(BUILD)/codec_bench $(BUILD)/allreduce_bench
objects = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
generated := $(BUILD)/generated/version.h $(BUILD)/generated/default_ini.h

products := $(BUILD)/libcompshim.so $(BUILD)/libcompshim-ompi.so $(BUILD)/compshim \
	$(BUILD)/mnist_train $(bench_programs)

.PHONY: all
all: $(products)

.PHONY: help
help:
	@sed -n 's/^## //p' Makefile

## make                 builds into build/ (BUILD=DIR for another folder)
## make packages        installs the Debian/Ubuntu packages that are missing
## make demo            installs what is missing, builds, and fills the all-reduce lab's tables
## make demo-net        the same over four emulated hosts with 1 Gbit/s links (needs root)
## make test            installs what is missing, builds, and runs every test
## make test-large      an all-reduce above 2^31 bytes; needs 8 GiB of memory
## make fuzz            each fuzz target for SECONDS=60, or RUNS=10000000; TARGET="policy plan" for some
## make soak            CALLS=1000000 calls of every kind, with flat memory
## make test-clients    real programs with and without the shim; writes docs/programs.md
## make test-valgrind   the MPI tests under valgrind
## make test-tsan       the MPI tests with threads under the thread sanitizer
## make lint            clang-format, clang-tidy, cppcheck, shell syntax
## make bench           codec and all-reduce benchmarks of this machine
## make study           MNIST accuracy of each codec over several seeds; STUDY="--seeds 5 --resume"
## make install         PREFIX=/usr/local DESTDIR=
## make clean
.PHONY: packages
packages: packages-build
packages-%:
	@tools/install-packages.sh $*

# Objects that other programs share -------------------------------------------------------------
$(BUILD)/generated/version.h: Makefile
	@mkdir -p $(@D)
	printf '%sdefine CSHIM_VERSION "%s"\n' "$(hash)" "$(VERSION)" >$@

$(BUILD)/generated/default_ini.h: policy/default.ini
	@mkdir -p $(@D)
	sed 's/\\/\\\\/g; s/"/\\"/g; s/.*/"&\\n"/' $< >$@

$(BUILD)/obj/shim/mpi/%.o $(BUILD)/obj/examples/mnist/%.o $(BUILD)/obj/tests/mpi/%.o \
$(BUILD)/obj/tests/standin/%.o $(BUILD)/obj/tests/bench/allreduce_bench.o: compiler = $(MPICC)
$(BUILD)/obj/examples/mnist/%.o: OPTIMIZE = -O3
$(BUILD)/obj/codecs/%.o: OPTIMIZE = -O3
# The checker for undefined behaviour would refuse the front's void * handles; the handles are opaque.
compiler = $(CC)

$(BUILD)/obj/%.o: %.c $(generated)
	@mkdir -p $(@D)
	$(compiler) $(flags) -c -o $@ $<

# Products --------------------------------------------------------------------------------------
$(BUILD)/libcompshim.so: $(call objects,$(front_sources)) shim/front/exports.map
	$(CC) $(flags) $(library_ldflags) -Wl,--version-script=shim/front/exports.map \
		-o $@ $(filter %.o,$^)

$(BUILD)/libcompshim-ompi.so: $(call objects,$(ompi_sources)) shim/mpi/exports.map
	$(MPICC) $(flags) $(library_ldflags) -Wl,--version-script=shim/mpi/exports.map \
		-o $@ $(filter %.o,$^) -l:libinih.a -lm

$(BUILD)/compshim: $(call objects,$(tool_sources) $(pure_sources))
	$(CC) $(flags) -o $@ $^ -l:libinih.a -ljansson -lelf -lm

$(BUILD)/mnist_train: $(call objects,$(mnist_sources))
	$(MPICC) $(flags) -o $@ $^ -lopenblas -lz -lm

$(BUILD)/codec_bench: $(call objects,tests/bench/codec_bench.c $(pure_sources))
	$(CC) $(flags) -o $@ $^ -l:libinih.a -lm

$(BUILD)/allreduce_bench: $(call objects,tests/bench/allreduce_bench.c)
	$(MPICC) $(flags) -o $@ $^ -lm

# Tests -----------------------------------------------------------------------------------------
$(BUILD)/tests/test_mnist_%: $(BUILD)/obj/tests/unit/test_mnist_%.o \
		$(call objects,$(filter-out examples/mnist/main.c,$(mnist_sources)))
	@mkdir -p $(@D)
	$(MPICC) $(flags) -o $@ $^ -lcmocka -lopenblas -lz -lm

$(BUILD)/tests/test_elf_%: $(BUILD)/obj/tests/unit/test_elf_%.o \
		$(call objects,$(wildcard tools/elf*.c) tools/tool.c)
	@mkdir -p $(@D)
	$(CC) $(flags) -o $@ $^ -lcmocka -lelf

$(BUILD)/tests/test_%: $(BUILD)/obj/tests/unit/test_%.o \
		$(call objects,$(pure_sources) shim/log.c $(report_sources))
	@mkdir -p $(@D)
	$(CC) $(flags) -o $@ $^ -l:libinih.a -lcmocka -ljansson -lm

$(BUILD)/tests/mpi_%: $(BUILD)/obj/tests/mpi/%.o \
		$(call objects,$(filter codecs/% policy/names.c,$(pure_sources)))
	@mkdir -p $(@D)
	$(MPICC) $(flags) -o $@ $^ -lm

$(BUILD)/tests/standin_%.so: $(BUILD)/obj/tests/standin/%.o
	@mkdir -p $(@D)
	$(MPICC) $(flags) -shared -o $@ $^

$(BUILD)/tests/fuzz_%: $(BUILD)/obj/tests/fuzz/fuzz_%.o \
		$(call objects,tests/fuzz/replay.c $(fuzz_sources))
	@mkdir -p $(@D)
	$(CC) $(flags) -o $@ $^ $(fuzz_libraries)

.PHONY: test
test: packages-test
	@$(MAKE) --no-print-directory test-programs
	@BUILD=$(BUILD) SANITIZE=$(SANITIZE) tests/run.sh

.PHONY: test-programs
test-programs: all $(unit_tests) $(mpi_tests) $(standins) $(fuzz_targets:%=$(BUILD)/tests/fuzz_%)

.PHONY: test-large
test-large: packages-test
	@$(MAKE) --no-print-directory test-programs
	@BUILD=$(BUILD) bash tests/mpi/large.sh

.PHONY: soak
soak: packages-test
	@$(MAKE) --no-print-directory test-programs
	@BUILD=$(BUILD) SANITIZE=$(SANITIZE) CALLS=$(CALLS) bash tests/mpi/soak.sh

.PHONY: test-clients
test-clients: packages-clients
	@$(MAKE) --no-print-directory all
	@BUILD=$(BUILD) bash tests/clients/run.sh

.PHONY: test-valgrind
test-valgrind: packages-test
	@$(MAKE) --no-print-directory test-programs
	@BUILD=$(BUILD) bash tests/mpi/valgrind.sh

.PHONY: test-tsan
test-tsan: packages-test
	@$(MAKE) --no-print-directory BUILD=$(BUILD)-tsan SANITIZE=thread test-programs
	@BUILD=$(BUILD)-tsan SANITIZE=thread bash tests/mpi/tsan.sh

.PHONY: lint
lint: packages-lint
	@$(MAKE) --no-print-directory $(generated)
	@BUILD=$(BUILD) tests/lint.sh

# Fuzzing ---------------------------------------------------------------------------------------
FUZZ_CC ?= clang
SECONDS = 60
RUNS =
TARGET = $(fuzz_targets)
fuzz_flags = -std=c11 -O2 -g -ffp-contract=off $(WARNINGS) -fsanitize=address,undefined \
	-fno-sanitize-recover=all -fno-omit-frame-pointer $(CPPFLAGS)
# Nothing in the planner is meant to wrap round. The codecs compare no words that would have to be
# guessed; watching their loops' comparisons takes most of the time.
$(BUILD)/obj/fuzz/shim/plan.o: fuzz_flags += -fsanitize=unsigned-integer-overflow
$(BUILD)/obj/fuzz/codecs/%.o $(BUILD)/obj/fuzz/tests/fuzz/%.o: fuzz_coverage := -fno-sanitize-coverage=trace-cmp

$(BUILD)/obj/fuzz/%.o: %.c $(generated)
	@mkdir -p $(@D)
	$(FUZZ_CC) $(fuzz_flags) -fsanitize=fuzzer-no-link $(fuzz_coverage) -c -o $@ $<

$(BUILD)/fuzz/fuzz_%: $(BUILD)/obj/fuzz/tests/fuzz/fuzz_%.o \
		$(patsubst %.c,$(BUILD)/obj/fuzz/%.o,$(fuzz_sources))
	@mkdir -p $(@D)
	$(FUZZ_CC) $(fuzz_flags) -fsanitize=fuzzer -o $@ $^ $(fuzz_libraries)

.PHONY: fuzz-programs
fuzz-programs: $(fuzz_targets:%=$(BUILD)/fuzz/fuzz_%)

.PHONY: fuzz
fuzz: packages-fuzz
	@$(MAKE) --no-print-directory fuzz-programs
	@BUILD=$(BUILD) tests/fuzz/run.sh $(if $(RUNS),runs $(RUNS),seconds $(SECONDS)) $(TARGET)

# Demo and benchmarks ---------------------------------------------------------------------------
.PHONY: demo
demo: packages-build
	@$(MAKE) --no-print-directory all
	@BUILD=$(BUILD) examples/demo.sh

.PHONY: demo-net
demo-net: packages-bench
	@$(MAKE) --no-print-directory all
	@BUILD=$(BUILD) tests/net/demo.sh

.PHONY: bench
bench: packages-bench
	@$(MAKE) --no-print-directory all
	@BUILD=$(BUILD) tests/bench/bench.sh

.PHONY: study
study: packages-bench
	@$(MAKE) --no-print-directory all
	@BUILD=$(BUILD) tests/study/study.sh $(STUDY)

# Installation ----------------------------------------------------------------------------------
.PHONY: install
install: all
	install -d $(DESTDIR)$(LIBDIR) $(DESTDIR)$(BINDIR) $(DESTDIR)$(MANDIR)/man1 \
		$(DESTDIR)$(MANDIR)/man5 $(DESTDIR)$(DATADIR) $(DESTDIR)$(DOCDIR)
	install -m 644 $(BUILD)/libcompshim.so $(BUILD)/libcompshim-ompi.so $(DESTDIR)$(LIBDIR)
	install -m 755 $(BUILD)/compshim $(DESTDIR)$(BINDIR)
	install -m 644 docs/man/*.1 $(DESTDIR)$(MANDIR)/man1
	install -m 644 docs/man/*.5 $(DESTDIR)$(MANDIR)/man5
	install -m 644 policy/default.ini examples/policy.ini $(DESTDIR)$(DATADIR)
	install -m 644 README.md CHANGELOG.md LICENSE docs/wire-format.md $(DESTDIR)$(DOCDIR)

.PHONY: uninstall
uninstall:
	rm -f $(DESTDIR)$(LIBDIR)/libcompshim.so $(DESTDIR)$(LIBDIR)/libcompshim-ompi.so \
		$(DESTDIR)$(BINDIR)/compshim $(DESTDIR)$(MANDIR)/man1/compshim.1 \
		$(DESTDIR)$(MANDIR)/man5/compshim-policy.5
	rm -rf $(DESTDIR)$(DATADIR) $(DESTDIR)$(DOCDIR)

.PHONY: clean
clean:
	rm -rf $(BUILD)

-include $(shell [ -d $(BUILD)/obj ] && find $(BUILD)/obj -name '*.d')
.SECONDARY:
.DELETE_ON_ERROR:
