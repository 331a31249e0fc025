# Needs Python 3.11+, Rust 1.90+ and make; everything else goes into .venv and target.
#
#   make demo     sample data, loaded, matched and looked up
#   make test     all checks and all tests
#   make test-servers    the long form of the tests on servers
#   make check    the checks alone: formats, lints, types, documents, structure
#   make bench    the benchmark (see bench/README.md)
#   make reliability    the reliability tests, for hours (see reliability.mk)
#   make clean    remove everything that was made

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
RUST   := $(shell find crates -name '*.rs' -o -name Cargo.toml) Cargo.toml Cargo.lock

# One interpreter for all builds: cargo would build the binding anew for another one.
export PYO3_PYTHON := $(abspath $(BIN)/python)
export PIP_QUIET := 1

.PHONY: demo test check build clean test-rust test-python test-cql test-servers check-rust check-python check-structure

demo: build
	$(BIN)/python scripts/demo.py demo

test: check test-rust test-python

check: check-structure check-rust check-python

build: $(VENV)/built

# Always the same packages: with others cargo would build anew, with other features, what they depend on.
RUST_TESTS := cargo test --quiet --locked --workspace

# Those of the backend on servers run against a real Cassandra, which this starts and ends.
test-rust: $(VENV)/built-for-tests
	$(RUST_TESTS) --no-run
	$(BIN)/python scripts/with_lab.py -- $(RUST_TESTS)

# Only these last.
test-cql: $(VENV)/built-for-tests
	$(BIN)/python scripts/with_lab.py -- $(RUST_TESTS) --test cql

test-python: $(VENV)/built-for-tests
	$(BIN)/pytest --quiet --ignore tests/test_cql_faults.py

# More about servers than `make test` does, for half an hour: cases of a million rows; what callers see of
# faults on three nodes with three copies of each row, some of which are killed and frozen. 6 GB of memory.
test-servers: $(VENV)/built-for-tests
	IDMATCH_TEST_ALL=1 $(BIN)/python scripts/with_lab.py -- $(RUST_TESTS) --test cql -- --nocapture
	$(BIN)/python scripts/with_lab.py --nodes 3 -- $(RUST_TESTS) --test cql -- --skip conformance:: --skip hot::
	IDMATCH_TEST_NODES=3 $(BIN)/pytest --quiet tests/test_cql_secure.py tests/test_cql_faults.py

check-structure: $(VENV)/tools
	$(BIN)/python scripts/check_edges.py
	$(BIN)/python scripts/tidy.py

check-rust: $(VENV)/tools
	cargo fmt --all --check
	cargo clippy --quiet --locked --workspace --all-targets -- --deny warnings
	RUSTDOCFLAGS="--deny warnings" cargo doc --quiet --locked --workspace --no-deps

check-python: $(VENV)/built-for-tests
	$(BIN)/ruff format --quiet --check python tests scripts
	$(BIN)/ruff check --quiet python tests scripts
	$(BIN)/mypy
	$(BIN)/stubtest idmatch._core

$(VENV)/tools: requirements-dev.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "idmatch needs Python 3.11 or newer: make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --requirement requirements-dev.lock
	@touch $@

$(VENV)/built: $(VENV)/tools $(RUST) pyproject.toml
	$(BIN)/maturin develop --release --locked --quiet
	@rm -f $(VENV)/built-for-tests
	@touch $@

# For tests the binding is built as they are: with checks of every sum, and with most of what they have
# built already.
$(VENV)/built-for-tests: $(VENV)/tools $(RUST) pyproject.toml
	$(BIN)/maturin develop --locked --quiet
	@rm -f $(VENV)/built
	@touch $@

clean:
	cargo clean
	rm -rf $(VENV) demo bench/.venv .mypy_cache .pytest_cache .ruff_cache .hypothesis
	rm -f python/idmatch/_core*.so

include bench/bench.mk
include reliability.mk
