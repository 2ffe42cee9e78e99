# Tern's build. `make help` lists the targets.
#
#   make CC=clang        another compiler
#   make SAN=address     AddressSanitizer and UBSan, into build/address
#   make SAN=thread      ThreadSanitizer, into build/thread
#   make DEBUG=1         without optimisation, with invariants checked (as with SAN), into build/debug
#   make WERROR=1        warnings are errors, as in CI
#   make V=1             show whole commands
#   make test T=NAMES    only the tests so named: core/manager, 'cluster/*', cli/train_lda

VERSION   := $(shell sed -n 's/^\#define TERN_VERSION_[A-Z]* //p' include/tern/tern.h | paste -sd.)
SOVERSION := $(firstword $(subst ., ,$(VERSION)))

q   := $(if $(V),,@)
say := @$(if $(V),true,echo ' ')

SAN    ?=
DEBUG  ?=
WERROR ?=
BUILD  ?= build$(if $(SAN),/$(SAN),$(if $(DEBUG),/debug))
PREFIX ?= /usr/local
OBJCOPY ?= objcopy
ARCH   := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine 2>/dev/null)))

WARN := -Wall -Wextra -Wshadow -Wconversion -Wdouble-promotion -Wstrict-prototypes \
        -Wmissing-prototypes -Wvla -Wundef -Wformat=2 -Wimplicit-fallthrough \
        $(if $(WERROR),-Werror)
OPT    ?= $(if $(SAN),-O1,$(if $(DEBUG),-O0,-O3))
CFLAGS ?= -g
# Flags of the user, also from the command line, come after those of the project.
override CFLAGS := -std=c17 $(OPT) $(WARN) -fPIC -fvisibility=hidden -fno-common \
                   -ffp-contract=off -fno-math-errno -pthread $(CFLAGS)
override CPPFLAGS := -D_GNU_SOURCE -Iinclude -MMD -MP $(CPPFLAGS)
ifneq ($(SAN)$(DEBUG),)
  override CPPFLAGS += -DTERN_INVARIANTS
endif
override LDLIBS += -lssl -lcrypto -llz4 -lm -pthread
TASK_LIBS := -lz -lzstd

ifeq ($(SAN),address)
  override CFLAGS += -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
else ifeq ($(SAN),thread)
  override CFLAGS += -fsanitize=thread -fno-omit-frame-pointer
else ifneq ($(SAN),)
  $(error SAN is address or thread, not '$(SAN)')
endif

# One file per instruction set; files for other machines are left out.
KERNELS_x86_64  := scalar avx2 avx512
KERNELS_aarch64 := scalar neon
KERNEL_FILES    := $(patsubst %,src/kernel/%.c,scalar avx2 avx512 neon)
KERNEL_USED     := $(patsubst %,src/kernel/%.c,$(or $(KERNELS_$(ARCH)),scalar))

LIB_SRC  := $(filter-out src/nd/%.c $(KERNEL_FILES),$(sort $(wildcard src/*/*.c))) $(KERNEL_USED)
# libternnd has code of base/ of its own, so that it needs nothing of libtern but public calls.
ND_SRC   := $(sort $(wildcard src/nd/*.c))
ND_BASE  := src/base/buffer.c src/base/handle.c src/base/invariant.c src/base/text.c src/base/thread.c src/wire/json.c
# OpenBLAS multiplies matrices where its development files are; OPENBLAS= leaves it out.
OPENBLAS ?= $(shell pkg-config --exists openblas 2>/dev/null && echo 1)
# oneDNN 2 convolves where its development files are, but not for ThreadSanitizer, which does not see OpenMP's locks; ONEDNN=
# leaves it out.
HASH := \#
HAS_ONEDNN = $(shell printf '%s\n' '$(HASH)include <oneapi/dnnl/dnnl_version.h>' '$(HASH)if DNNL_VERSION_MAJOR != 2' \
                     '$(HASH)error' '$(HASH)endif' | $(CC) -E - >/dev/null 2>&1 && echo 1)
ONEDNN   ?= $(if $(filter thread,$(SAN)),,$(HAS_ONEDNN))
override ONEDNN := $(ONEDNN)
ND_LIBS  := -lz $(if $(OPENBLAS),$(shell pkg-config --libs openblas)) $(if $(ONEDNN),-ldnnl -lgomp)
CLI_SRC  := $(sort $(wildcard cli/*.c))
TASK_SRC := $(sort $(wildcard tasks/*/*.c))
TEST_SRC := $(sort $(wildcard tests/unit/*/test_*.c))
CLUSTER_SRC := $(sort $(wildcard tests/cluster/*.c))
SUPPORT_SRC := $(sort $(wildcard tests/support/*.c))
EXAMPLE_SRC := $(sort $(wildcard examples/*.c))
BENCH_SRC   := $(sort $(wildcard bench/*.c))

obj      = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
LIB_OBJ := $(call obj,$(LIB_SRC))
ND_OBJ  := $(call obj,$(ND_SRC) $(ND_BASE))
TESTS   := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(TEST_SRC))
CLUSTER := $(patsubst %.c,$(BUILD)/%,$(CLUSTER_SRC))
EXAMPLES := $(patsubst %.c,$(BUILD)/%,$(EXAMPLE_SRC))
BENCHES  := $(patsubst %.c,$(BUILD)/%,$(BENCH_SRC))

# The simulator and a core with deliberate defects, compiled in for this test alone. Defects are mistakes of the protocol, not of
# memory: builds with a sanitizer leave them out, and have the simulator itself in tests/unit/sim.
DEFECT_SRC := $(sort $(wildcard src/core/*.c src/sim/*.c)) tests/sim/test_defects.c
DEFECT_OBJ := $(patsubst %.c,$(BUILD)/obj/defects/%.o,$(DEFECT_SRC))
SIM_TESTS := $(BUILD)/tests/sim/test_defects
SHARED_SRC := $(sort $(wildcard src/store/*.c)) src/base/spin.c tests/sim/test_shared.c
SHARED_OBJ := $(patsubst %.c,$(BUILD)/obj/defects/%.o,$(SHARED_SRC))
SIM_TESTS += $(BUILD)/tests/sim/test_shared
TESTS += $(if $(SAN),,$(SIM_TESTS))

# Tests count allocations and make chosen ones fail.
WRAP := -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc,--wrap=mmap

.PHONY: force all lib cli tests examples benches test demo bench fuzz sim check format deps install uninstall clean help
.DELETE_ON_ERROR:
.SECONDARY: # keep objects, so that nothing is compiled twice

all: lib cli ## the library and the command, in build/
lib: $(BUILD)/libtern.a $(BUILD)/libtern.so $(BUILD)/libternnd.a $(BUILD)/libternnd.so
cli: $(BUILD)/tern
tests: $(TESTS) $(CLUSTER)
examples: $(EXAMPLES)
benches: $(BENCHES)

# Files that are rewritten when their content changes: the flags, on which all objects depend, and the lists of sources of
# the libraries and the command. Sorted, because a recursive make finds some flags twice.
FLAGS   := $(sort $(CC) $(CPPFLAGS) $(filter-out -Werror,$(CFLAGS)) $(LDFLAGS) $(LDLIBS))
SOURCES := $(LIB_SRC) $(ND_SRC) $(TASK_SRC) $(CLI_SRC)
$(BUILD)/obj/flags:   export SAID = $(FLAGS)
$(BUILD)/obj/sources: export SAID = $(SOURCES)
$(BUILD)/obj/flags $(BUILD)/obj/sources: force
	@mkdir -p $(@D)
	@printf '%s\n' "$$SAID" | cmp -s - $@ || printf '%s\n' "$$SAID" > $@

$(BUILD)/obj/src/kernel/avx2.o:   override CFLAGS += -mavx2
$(BUILD)/obj/src/kernel/avx512.o: override CFLAGS += -mavx512f -mavx512dq -mavx512bw -mavx512vl \
                                                     -mprefer-vector-width=512

$(BUILD)/obj/tasks/common/dense.o: override CFLAGS += -ffp-contract=fast

ifneq ($(OPENBLAS),)
  $(BUILD)/obj/src/nd/gemm.o: override CPPFLAGS += -DTERN_OPENBLAS $(shell pkg-config --cflags openblas)
endif

ifneq ($(ONEDNN),)
  $(BUILD)/obj/src/nd/onednn.o: override CPPFLAGS += -DTERN_ONEDNN
endif

$(BUILD)/obj/src/%.o: override CPPFLAGS += -Isrc
$(BUILD)/obj/tests/%.o: override CPPFLAGS += -Isrc -Itests
$(BUILD)/obj/bench/%.o: override CPPFLAGS += -Isrc -Itasks
$(BUILD)/obj/tasks/%.o $(BUILD)/obj/cli/%.o $(BUILD)/obj/tests/unit/tasks/%.o: \
    override CPPFLAGS += -Itasks

$(BUILD)/obj/%.o: %.c $(BUILD)/obj/flags
	@mkdir -p $(@D)
	$(say) CC $<
	$(q)$(CC) $(CPPFLAGS) $(CFLAGS) -c $< -o $@

$(BUILD)/obj/defects/%.o: %.c $(BUILD)/obj/flags
	@mkdir -p $(@D)
	$(say) CC $< with defects
	$(q)$(CC) $(CPPFLAGS) -Isrc -DTERN_DEFECTS $(CFLAGS) -c $< -o $@

$(BUILD)/tests/sim/test_defects: $(DEFECT_OBJ) $(BUILD)/obj/libtern.a
	@mkdir -p $(@D)
	$(say) LD $@
	$(q)$(CC) $(CFLAGS) $(LDFLAGS) $^ $(LDLIBS) -lcmocka -o $@

$(BUILD)/tests/sim/test_shared: $(SHARED_OBJ) $(BUILD)/obj/libtern.a
	@mkdir -p $(@D)
	$(say) LD $@
	$(q)$(CC) $(CFLAGS) $(LDFLAGS) $^ $(LDLIBS) -lcmocka -o $@

# With all symbols, for unit tests.
$(BUILD)/obj/libtern.a: $(LIB_OBJ) $(BUILD)/obj/sources
	@rm -f $@
	$(say) AR $@
	$(q)$(AR) rcs $@ $(LIB_OBJ)

# With public symbols alone.
$(BUILD)/libtern.a: $(LIB_OBJ) $(BUILD)/obj/sources
	@rm -f $@
	$(say) AR $@
	$(q)$(LD) -r $(LIB_OBJ) -o $(BUILD)/obj/tern.o
	$(q)$(OBJCOPY) --localize-hidden $(BUILD)/obj/tern.o
	$(q)$(AR) rcs $@ $(BUILD)/obj/tern.o

$(BUILD)/libtern.so.$(VERSION): $(LIB_OBJ) $(BUILD)/obj/sources
	$(say) LD $@
	$(q)$(CC) $(CFLAGS) -shared -Wl,-soname,libtern.so.$(SOVERSION) $(LDFLAGS) $(LIB_OBJ) $(LDLIBS) -o $@

$(BUILD)/libtern.so: $(BUILD)/libtern.so.$(VERSION)
	$(q)ln -sf $(<F) $(BUILD)/libtern.so.$(SOVERSION)
	$(q)ln -sf $(<F) $@

# The same three for libternnd; the first without its `fail`, since libtern.a has the one of unit tests.
$(BUILD)/obj/libternnd.a: $(filter-out %/fail.o,$(call obj,$(ND_SRC))) $(BUILD)/obj/sources
	@rm -f $@
	$(say) AR $@
	$(q)$(AR) rcs $@ $(filter %.o,$^)

$(BUILD)/libternnd.a: $(ND_OBJ) $(BUILD)/obj/sources
	@rm -f $@
	$(say) AR $@
	$(q)$(LD) -r $(ND_OBJ) -o $(BUILD)/obj/ternnd.o
	$(q)$(OBJCOPY) --localize-hidden $(BUILD)/obj/ternnd.o
	$(q)$(AR) rcs $@ $(BUILD)/obj/ternnd.o

$(BUILD)/libternnd.so.$(VERSION): $(ND_OBJ) $(BUILD)/libtern.so $(BUILD)/obj/sources
	$(say) LD $@
	$(q)$(CC) $(CFLAGS) -shared -Wl,-soname,libternnd.so.$(SOVERSION) $(LDFLAGS) $(ND_OBJ) -L$(BUILD) -ltern \
	    $(ND_LIBS) -lm -pthread -o $@

$(BUILD)/libternnd.so: $(BUILD)/libternnd.so.$(VERSION)
	$(q)ln -sf $(<F) $(BUILD)/libternnd.so.$(SOVERSION)
	$(q)ln -sf $(<F) $@

$(BUILD)/libtasks.a: $(call obj,$(TASK_SRC)) $(BUILD)/obj/sources
	@rm -f $@
	$(say) AR $@
	$(q)$(AR) rcs $@ $(filter %.o,$^)

$(BUILD)/tern: $(call obj,$(CLI_SRC)) $(BUILD)/libtasks.a $(BUILD)/libtern.a
	$(say) LD $@
	$(q)$(CC) $(CFLAGS) $(LDFLAGS) $^ $(TASK_LIBS) $(LDLIBS) -o $@

$(BUILD)/tests/tasks/%: $(BUILD)/obj/tests/unit/tasks/%.o $(BUILD)/libtasks.a $(BUILD)/libtern.a
	@mkdir -p $(@D)
	$(say) LD $@
	$(q)$(CC) $(CFLAGS) $(LDFLAGS) $^ $(TASK_LIBS) $(LDLIBS) -lcmocka -o $@

$(BUILD)/tests/nd/%: $(BUILD)/obj/tests/unit/nd/%.o $(call obj,$(SUPPORT_SRC)) $(BUILD)/obj/libternnd.a \
                     $(BUILD)/obj/libtern.a
	@mkdir -p $(@D)
	$(say) LD $@
	$(q)$(CC) $(CFLAGS) $(LDFLAGS) $(WRAP) $^ $(ND_LIBS) $(LDLIBS) -lcmocka -o $@

$(BUILD)/tests/%: $(BUILD)/obj/tests/unit/%.o $(call obj,$(SUPPORT_SRC)) $(BUILD)/obj/libtern.a
	@mkdir -p $(@D)
	$(say) LD $@
	$(q)$(CC) $(CFLAGS) $(LDFLAGS) $(WRAP) $^ $(LDLIBS) -lcmocka -o $@

$(BUILD)/tests/cluster/%: $(BUILD)/obj/tests/cluster/%.o $(BUILD)/libtern.a
	@mkdir -p $(@D)
	$(say) LD $@
	$(q)$(CC) $(CFLAGS) $(LDFLAGS) $^ $(LDLIBS) -o $@

$(BUILD)/examples/mlp: $(BUILD)/obj/examples/mlp.o $(BUILD)/libternnd.a $(BUILD)/libtern.a
	@mkdir -p $(@D)
	$(say) LD $@
	$(q)$(CC) $(CFLAGS) $(LDFLAGS) $^ $(ND_LIBS) $(LDLIBS) -o $@

$(BUILD)/examples/%: $(BUILD)/obj/examples/%.o $(BUILD)/libtern.a
	@mkdir -p $(@D)
	$(say) LD $@
	$(q)$(CC) $(CFLAGS) $(LDFLAGS) $^ $(LDLIBS) -o $@

$(BUILD)/bench/%: $(BUILD)/obj/bench/%.o $(BUILD)/libtasks.a $(BUILD)/obj/libtern.a
	@mkdir -p $(@D)
	$(say) LD $@
	$(q)$(CC) $(CFLAGS) $(LDFLAGS) $^ $(TASK_LIBS) $(LDLIBS) -o $@

.PHONY: python test-torch deb

# The Python package, ready to import with PYTHONPATH=$(BUILD)/python. It holds the library, unless PYTHON_LINK=shared.
PYTHON      ?= $(firstword $(wildcard /usr/bin/python3) python3)
PYTHON_LINK ?= static
PY_SRC   := $(sort $(wildcard python/src/*.c))
PY_FILES := $(sort $(wildcard python/tern/*.py python/tern/*.pyi python/tern/py.typed))
PY_INCLUDE = $(shell $(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("include"))')
PY_MODULE := $(BUILD)/python/tern/_tern.abi3.so
PY_ND     := $(if $(filter static,$(PYTHON_LINK)),$(BUILD)/python/tern/libternnd.so)

python: $(PY_MODULE) $(PY_ND) $(patsubst python/%,$(BUILD)/python/%,$(PY_FILES)) ## the Python package, in build/python

$(BUILD)/obj/python/%.o: override CPPFLAGS += -isystem $(PY_INCLUDE)

$(PY_MODULE): $(call obj,$(PY_SRC)) $(if $(filter shared,$(PYTHON_LINK)),$(BUILD)/libtern.so,$(BUILD)/libtern.a)
	@mkdir -p $(@D)
	$(say) LD $@
	$(q)$(CC) $(CFLAGS) -shared $(LDFLAGS) $(call obj,$(PY_SRC)) \
	    $(if $(filter shared,$(PYTHON_LINK)),-L$(BUILD) -ltern,$(BUILD)/libtern.a $(LDLIBS)) -o $@

# tern.nd loads it; it holds libtern. With PYTHON_LINK=shared the system's libternnd is loaded.
$(BUILD)/python/tern/libternnd.so: $(ND_OBJ) $(BUILD)/libtern.a
	@mkdir -p $(@D)
	$(say) LD $@
	$(q)$(CC) $(CFLAGS) -shared $(LDFLAGS) $(ND_OBJ) -Wl,--whole-archive $(BUILD)/libtern.a -Wl,--no-whole-archive \
	    $(ND_LIBS) $(LDLIBS) -o $@

$(BUILD)/python/%: python/%
	@mkdir -p $(@D)
	$(q)cp $< $@

deps: ## install the Debian packages that are missing
	@tools/install-deps

# `test` and `demo` start a second make, which sees what `deps` installed.
test: deps ## build and run every test; T='core/manager cluster/*' chooses some
	@targets=$$(tools/run-tests --targets "$(T)" $(BUILD)) && \
	    $(MAKE) --no-print-directory $${targets:-all tests examples}
	@tools/run-tests --only "$(T)" $(BUILD)

test-torch: deps ## the Python package against torch, which it installs
	@tools/install-deps --torch
	@$(MAKE) --no-print-directory all python
	@PYTEST_MARK=torch tools/run-tests --only cli/python $(BUILD)

demo: deps ## train something real and show the result
	@$(MAKE) --no-print-directory all examples
	@tools/demo $(BUILD)

bench: all benches ## some of the figures of docs/BENCHMARKS.md
	$(BUILD)/tern bench local
	$(BUILD)/bench/latch
	$(BUILD)/bench/pages

FUZZ_SECONDS ?= 60
# FUZZ_RUNS=N instead: N inputs from a fixed seed, the same for the same code, as in .ci/run.
FUZZ_RUNS    ?=
FUZZ_LIMIT    = $(if $(FUZZ_RUNS),-seed=1 -runs=$(FUZZ_RUNS),-max_total_time=$(FUZZ_SECONDS))
FUZZ_TARGETS := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))

fuzz: $(FUZZ_TARGETS:%=fuzz-%) ## fuzz every decoder for FUZZ_SECONDS (60); needs clang

# The library and the decoders of tasks, with the counters that guide the fuzzer. Targets see the same structs as it: a lock has
# its rank where invariants are asserted.
FUZZ_TASKS := sketch/sketch_file common/input common/interrupt common/sentence
FUZZ_LIB := $(FUZZ_TASKS:%=$(BUILD)/fuzz/address/obj/tasks/%.o) \
            $(BUILD)/fuzz/address/obj/libternnd.a $(BUILD)/fuzz/address/obj/libtern.a

.PHONY: fuzz-lib
fuzz-lib:
	@CFLAGS='-g -fsanitize=fuzzer-no-link' $(MAKE) --no-print-directory CC=clang SAN=address \
	    BUILD=$(BUILD)/fuzz/address $(FUZZ_LIB)

fuzz-%: tests/fuzz/fuzz_%.c fuzz-lib
	@mkdir -p $(BUILD)/fuzz/found-$*
	$(say) FUZZ $*
	$(q)clang -g -O1 -std=c17 $(WARN) -D_GNU_SOURCE -DTERN_INVARIANTS -Iinclude -Isrc -Itests -Itasks \
	    -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all \
	    $< $(FUZZ_LIB) $(TASK_LIBS) $(ND_LIBS) $(LDLIBS) -o $(BUILD)/fuzz/$*
	$(q)$(BUILD)/fuzz/$* $(FUZZ_LIMIT) -max_len=2048 \
	    -artifact_prefix=$(BUILD)/fuzz/ $(BUILD)/fuzz/found-$* tests/fuzz/corpus/$*

sim: cli ## 10,000 simulated clusters under all faults
	tests/sim/many.sh $(BUILD)/tern

check: ## the layering, the sizes and the format of the sources, and what clang-tidy finds
	@tools/check-layers
	@tools/check-sizes
	@tools/format --check
	@tools/lint

format: ## format the C sources
	@tools/format

root = $(DESTDIR)$(PREFIX)

# The pages and the completion are written by the command itself, from its tables of options.
.PHONY: man
man: $(BUILD)/man/tern.1
$(BUILD)/man/tern.1: $(BUILD)/tern
	@mkdir -p $(BUILD)/man/bash
	$(say) MAN $(BUILD)/man
	$(q)rm -f $(BUILD)/man/*.1
	$(q)$(BUILD)/tern help --completion > $(BUILD)/man/bash/tern
	$(q)$(BUILD)/tern help --man $(BUILD)/man

# STRIP=: installs the command and the shared library with their debug information.
STRIP   ?= strip
man1    := share/man/man1
bashdir := share/bash-completion/completions

install: all man ## headers, libraries, command, man pages, completion; DESTDIR, PREFIX and STRIP are honoured
	install -d "$(root)/include/tern" "$(root)/lib/pkgconfig" "$(root)/bin" "$(root)/$(man1)" "$(root)/$(bashdir)"
	install -m 644 $(BUILD)/man/*.1 "$(root)/$(man1)/"
	install -m 644 $(BUILD)/man/bash/tern "$(root)/$(bashdir)/"
	install -m 644 include/tern/tern.h include/tern/sim.h include/tern/nd.h "$(root)/include/tern/"
	for name in libtern libternnd; do \
	    install -m 644 "$(BUILD)/$$name.a" "$(root)/lib/" && \
	    install -m 755 "$(BUILD)/$$name.so.$(VERSION)" "$(root)/lib/" && \
	    $(if $(STRIP),$(STRIP) --strip-unneeded "$(root)/lib/$$name.so.$(VERSION)" &&) \
	    ln -sf $$name.so.$(VERSION) "$(root)/lib/$$name.so.$(SOVERSION)" && \
	    ln -sf $$name.so.$(VERSION) "$(root)/lib/$$name.so" || exit; \
	done
	install -m 755 "$(BUILD)/tern" "$(root)/bin/"
	$(if $(STRIP),$(STRIP) "$(root)/bin/tern")
	for name in tern ternnd; do \
	    sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' -e 's|@ND_LIBS@|$(ND_LIBS)|' tools/$$name.pc.in \
	        > "$(root)/lib/pkgconfig/$$name.pc" && chmod 644 "$(root)/lib/pkgconfig/$$name.pc" || exit; \
	done

uninstall: ## what install put there
	for name in tern ternnd; do \
	    rm -f "$(root)/lib/lib$$name.a" "$(root)/lib/lib$$name.so" "$(root)/lib/lib$$name.so.$(SOVERSION)" \
	        "$(root)/lib/lib$$name.so.$(VERSION)" "$(root)/lib/pkgconfig/$$name.pc"; \
	done
	rm -f "$(root)/include/tern/tern.h" "$(root)/include/tern/sim.h" "$(root)/include/tern/nd.h" "$(root)/bin/tern" \
	    "$(root)/$(man1)"/tern.1 "$(root)/$(man1)"/tern-*.1 "$(root)/$(bashdir)/tern"
	-rmdir "$(root)/include/tern"

# In a copy of the tree, since debhelper writes beside the sources.
DEB := build/deb
deb: ## Debian packages, in build/deb; needs debhelper, dh-python and python3-dev
	rm -rf $(DEB)
	mkdir -p $(DEB)/tern-$(VERSION)
	tar -cf - --exclude=./build --exclude=./.git . | tar -xf - -C $(DEB)/tern-$(VERSION)
	cd $(DEB)/tern-$(VERSION) && dpkg-buildpackage -b -us -uc
	rm -rf $(DEB)/tern-$(VERSION)
	@ls $(DEB)/*.deb

clean: ## remove build/
	rm -rf build

force:

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | expand -t 12

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
