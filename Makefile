# Tern's build. `make help` lists the targets.
#
#   make CC=clang        another compiler
#   make SAN=address     AddressSanitizer and UBSan, into build/address
#   make SAN=thread      ThreadSanitizer, into build/thread
#   make WERROR=1        warnings are errors, as in CI
#   make V=1             show whole commands

VERSION   := $(shell sed -n 's/^\#define TERN_VERSION_[A-Z]* //p' include/tern/tern.h | paste -sd.)
SOVERSION := $(firstword $(subst ., ,$(VERSION)))

q   := $(if $(V),,@)
say := @$(if $(V),true,echo ' ')

SAN    ?=
WERROR ?=
BUILD  ?= build$(if $(SAN),/$(SAN))
PREFIX ?= /usr/local
OBJCOPY ?= objcopy
ARCH   := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine)))

WARN := -Wall -Wextra -Wshadow -Wconversion -Wdouble-promotion -Wstrict-prototypes \
        -Wmissing-prototypes -Wvla -Wundef -Wformat=2 -Wimplicit-fallthrough \
        $(if $(WERROR),-Werror)
OPT    ?= $(if $(SAN),-O1,-O3)
CFLAGS ?= -g
# What is given, on the command line, too, comes behind what the project needs.
override CFLAGS := -std=c17 $(OPT) $(WARN) -fPIC -fvisibility=hidden -fno-common \
                   -ffp-contract=off -fno-math-errno -pthread $(CFLAGS)
override CPPFLAGS := -D_GNU_SOURCE -Iinclude -MMD -MP $(CPPFLAGS)
override LDLIBS += -lssl -lcrypto -lm -pthread
TASK_LIBS := -lz -lzstd

ifeq ($(SAN),address)
  override CFLAGS += -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
else ifeq ($(SAN),thread)
  override CFLAGS += -fsanitize=thread -fno-omit-frame-pointer
else ifneq ($(SAN),)
  $(error SAN is address or thread, not '$(SAN)')
endif

# One file per instruction set; the others are left out on a machine of another kind.
KERNELS_x86_64  := scalar avx2 avx512
KERNELS_aarch64 := scalar neon
KERNEL_FILES    := $(patsubst %,src/kernel/%.c,scalar avx2 avx512 neon)
KERNEL_USED     := $(patsubst %,src/kernel/%.c,$(or $(KERNELS_$(ARCH)),scalar))

LIB_SRC  := $(filter-out $(KERNEL_FILES),$(sort $(wildcard src/*/*.c))) $(KERNEL_USED)
CLI_SRC  := $(sort $(wildcard cli/*.c))
TASK_SRC := $(sort $(wildcard tasks/*/*.c))
TEST_SRC := $(sort $(wildcard tests/unit/*/test_*.c))
CLUSTER_SRC := $(sort $(wildcard tests/cluster/*.c))
SUPPORT_SRC := $(sort $(wildcard tests/support/*.c))
EXAMPLE_SRC := $(sort $(wildcard examples/*.c))
BENCH_SRC   := $(sort $(wildcard bench/*.c))

obj      = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
LIB_OBJ := $(call obj,$(LIB_SRC))
TESTS   := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(TEST_SRC))
CLUSTER := $(patsubst %.c,$(BUILD)/%,$(CLUSTER_SRC))
EXAMPLES := $(patsubst %.c,$(BUILD)/%,$(EXAMPLE_SRC))
BENCHES  := $(patsubst %.c,$(BUILD)/%,$(BENCH_SRC))

# The simulator against protocols with deliberate defects, compiled in for it alone.
DEFECT_SRC := $(sort $(wildcard src/core/*.c src/sim/*.c)) tests/sim/test_defects.c
DEFECT_OBJ := $(patsubst %.c,$(BUILD)/obj/defects/%.o,$(DEFECT_SRC))
TESTS += $(BUILD)/tests/sim/test_defects

# Tests count allocations and make chosen ones fail.
WRAP := -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc,--wrap=mmap

.PHONY: force all lib cli tests examples benches test demo bench fuzz sim check deps install uninstall clean help
.DELETE_ON_ERROR:
.SECONDARY: # keep objects, so that nothing is compiled twice

all: lib cli ## the library and the command, in build/
lib: $(BUILD)/libtern.a $(BUILD)/libtern.so
cli: $(BUILD)/tern
tests: $(TESTS) $(CLUSTER)
examples: $(EXAMPLES)
benches: $(BENCHES)

# Written when what they say has changed: the flags, on which all objects depend, and the files that libraries and the
# command are made of.
# Sorted, because a make inside a make finds some of them twice.
FLAGS   := $(sort $(CC) $(CPPFLAGS) $(filter-out -Werror,$(CFLAGS)) $(LDFLAGS) $(LDLIBS))
SOURCES := $(LIB_SRC) $(TASK_SRC) $(CLI_SRC)
$(BUILD)/obj/flags:   export SAID = $(FLAGS)
$(BUILD)/obj/sources: export SAID = $(SOURCES)
$(BUILD)/obj/flags $(BUILD)/obj/sources: force
	@mkdir -p $(@D)
	@printf '%s\n' "$$SAID" | cmp -s - $@ || printf '%s\n' "$$SAID" > $@

$(BUILD)/obj/src/kernel/avx2.o:   override CFLAGS += -mavx2
$(BUILD)/obj/src/kernel/avx512.o: override CFLAGS += -mavx512f -mavx512dq -mavx512bw -mavx512vl \
                                                     -mprefer-vector-width=512

$(BUILD)/obj/tasks/common/dense.o: override CFLAGS += -ffp-contract=fast

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

# With all names, for the tests of what is inside.
$(BUILD)/obj/libtern.a: $(LIB_OBJ) $(BUILD)/obj/sources
	@rm -f $@
	$(say) AR $@
	$(q)$(AR) rcs $@ $(LIB_OBJ)

# With the public names alone, which are no other program's.
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

$(BUILD)/tests/%: $(BUILD)/obj/tests/unit/%.o $(call obj,$(SUPPORT_SRC)) $(BUILD)/obj/libtern.a
	@mkdir -p $(@D)
	$(say) LD $@
	$(q)$(CC) $(CFLAGS) $(LDFLAGS) $(WRAP) $^ $(LDLIBS) -lcmocka -o $@

$(BUILD)/tests/cluster/%: $(BUILD)/obj/tests/cluster/%.o $(BUILD)/libtern.a
	@mkdir -p $(@D)
	$(say) LD $@
	$(q)$(CC) $(CFLAGS) $(LDFLAGS) $^ $(LDLIBS) -o $@

$(BUILD)/examples/%: $(BUILD)/obj/examples/%.o $(BUILD)/libtern.a
	@mkdir -p $(@D)
	$(say) LD $@
	$(q)$(CC) $(CFLAGS) $(LDFLAGS) $^ $(LDLIBS) -o $@

$(BUILD)/bench/%: $(BUILD)/obj/bench/%.o $(BUILD)/libtasks.a $(BUILD)/obj/libtern.a
	@mkdir -p $(@D)
	$(say) LD $@
	$(q)$(CC) $(CFLAGS) $(LDFLAGS) $^ $(TASK_LIBS) $(LDLIBS) -o $@

deps: ## install the Debian packages that are missing
	@tools/install-deps

# The two commands of README start a second make, so that what `deps` installs is seen by it.
test: deps ## build and run every test
	@$(MAKE) --no-print-directory all tests examples
	@tools/run-tests $(BUILD)

demo: deps ## train something real and show the result
	@$(MAKE) --no-print-directory all examples
	@tools/demo $(BUILD)

bench: all benches ## the figures of README and docs/RATIONALE.md
	$(BUILD)/tern bench local
	$(BUILD)/bench/latch
	$(BUILD)/bench/pages

FUZZ_SECONDS ?= 60
FUZZ_TARGETS := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))

fuzz: $(FUZZ_TARGETS:%=fuzz-%) ## fuzz every decoder for FUZZ_SECONDS (60); needs clang

# The library as the targets use it: with the counters that guide the fuzzer.
FUZZ_LIB := $(BUILD)/fuzz/address/obj/libtern.a

.PHONY: fuzz-lib
fuzz-lib:
	@CFLAGS='-g -fsanitize=fuzzer-no-link' $(MAKE) --no-print-directory CC=clang SAN=address \
	    BUILD=$(BUILD)/fuzz/address $(FUZZ_LIB)

fuzz-%: tests/fuzz/fuzz_%.c fuzz-lib
	@mkdir -p $(BUILD)/fuzz/found-$*
	$(say) FUZZ $*
	$(q)clang -g -O1 -std=c17 $(WARN) -D_GNU_SOURCE -Iinclude -Isrc -Itests \
	    -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all \
	    $< $(FUZZ_LIB) $(LDLIBS) -o $(BUILD)/fuzz/$*
	$(q)$(BUILD)/fuzz/$* -max_total_time=$(FUZZ_SECONDS) -max_len=2048 \
	    -artifact_prefix=$(BUILD)/fuzz/ $(BUILD)/fuzz/found-$* tests/fuzz/corpus/$*

sim: cli ## 10,000 simulated clusters under all faults
	tests/sim/many.sh $(BUILD)/tern

check: ## the rules of layering
	@tools/check-layers

root = $(DESTDIR)$(PREFIX)

install: all ## headers, libraries, command, pkg-config; DESTDIR and PREFIX are honoured
	install -d "$(root)/include/tern" "$(root)/lib/pkgconfig" "$(root)/bin"
	install -m 644 include/tern/tern.h include/tern/sim.h "$(root)/include/tern/"
	install -m 644 "$(BUILD)/libtern.a" "$(root)/lib/"
	install -m 755 "$(BUILD)/libtern.so.$(VERSION)" "$(root)/lib/"
	ln -sf libtern.so.$(VERSION) "$(root)/lib/libtern.so.$(SOVERSION)"
	ln -sf libtern.so.$(VERSION) "$(root)/lib/libtern.so"
	install -m 755 "$(BUILD)/tern" "$(root)/bin/"
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' tools/tern.pc.in \
	    > "$(root)/lib/pkgconfig/tern.pc"
	chmod 644 "$(root)/lib/pkgconfig/tern.pc"

uninstall: ## what install put there
	rm -f "$(root)/include/tern/tern.h" "$(root)/include/tern/sim.h" "$(root)/lib/libtern.a" \
	    "$(root)/lib/libtern.so" "$(root)/lib/libtern.so.$(SOVERSION)" \
	    "$(root)/lib/libtern.so.$(VERSION)" "$(root)/lib/pkgconfig/tern.pc" "$(root)/bin/tern"
	-rmdir "$(root)/include/tern"

clean: ## remove build/
	rm -rf build

force:

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | expand -t 12

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
