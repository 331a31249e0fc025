# What could go wrong, tried for long; the Makefile at the top includes this file. `make test` does a little of each.
#
#   make reliability                hours: everything below, one after the other
#   make reliability-soak           one of them; RUNS, SECONDS_EACH and SEED say how much
#   make reliability-soak SEED=42   the same choices again (the moments at which threads meet differ)
#   make reliability-fuzz           every fuzz target; needs cargo-fuzz and a nightly toolchain
#
# Each prints a line with its figures. A test that cannot be done here (see full_disk.rs) fails.

# How often each is done, or for how many seconds.
RELIABILITY_RUNS    := orders=1000 full_disk=100 kill=1000 kill_all=1000 power=20 power_tables=20 faults=10 corruption=20000 properties=2000 \
	upserts=1 recover=1 sessions_faults=4 shared_sessions=1 checkpoints=1
RELIABILITY_SECONDS := history=600 soak=1800
FUZZ_SECONDS        ?= 600
FUZZ_TARGETS        := $(notdir $(basename $(wildcard fuzz/fuzz_targets/*.rs)))

SEED := $(or $(SEED),$(shell date +%s))

reliability_names  = $(foreach one,$(1),$(firstword $(subst =, ,$(one))))
reliability_amount = $(patsubst $*=%,%,$(filter $*=%,$(1)))
RELIABILITY_TESTS := $(call reliability_names,$(RELIABILITY_RUNS) $(RELIABILITY_SECONDS))

.PHONY: reliability reliability-fuzz $(RELIABILITY_TESTS:%=reliability-%)

ifeq ($(FUZZ_TARGETS),)
$(error fuzz/fuzz_targets has no fuzz target)
endif

reliability: $(RELIABILITY_TESTS:%=reliability-%) reliability-fuzz

RELIABILITY_TEST = IDMATCH_SEED=$(SEED) $(FILTERED) engine $*:: --nocapture --test-threads 1

$(patsubst %,reliability-%,$(call reliability_names,$(RELIABILITY_RUNS))): reliability-%:
	IDMATCH_RUNS=$(or $(RUNS),$(call reliability_amount,$(RELIABILITY_RUNS))) $(RELIABILITY_TEST)

$(patsubst %,reliability-%,$(call reliability_names,$(RELIABILITY_SECONDS))): reliability-%:
	IDMATCH_SECONDS=$(or $(SECONDS_EACH),$(call reliability_amount,$(RELIABILITY_SECONDS))) $(RELIABILITY_TEST)

reliability-fuzz:
	@cargo +nightly fuzz --version >/dev/null 2>&1 || { echo "no fuzzing: install cargo-fuzz and a nightly toolchain" >&2; exit 1; }
	set -e; for target in $(FUZZ_TARGETS); do \
		cargo +nightly fuzz run $$target -- -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1; done
