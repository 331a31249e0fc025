# Targets of the benchmark; the Makefile at the top includes this file.
#
#   make bench                      everything at full size: hours, about 80 GB of disk; root for the cold runs
#   make bench BENCH_ARGS="--rows 4M"    everything, small: minutes
#   make bench-live                 writing while reading: an hour, about 40 GB of disk
#   make bench-live LIVE_ARGS="--rows 2M --seconds 10"    the same, small: minutes
#   make bench-report               docs/benchmarks.md from the results of BENCH_RESULTS
#   make bench-live-peers           installs the peers of live writes (see bench/live_peers/README.md)

BENCH_VENV    ?= bench/.venv
BENCH_PYTHON  ?= $(BENCH_VENV)/bin/python
BENCH_ARGS    ?=
LIVE_ARGS     ?=
BENCH_RESULTS ?= /var/tmp/idmatch-bench/results-400M-seed7.json

.PHONY: bench bench-live bench-env bench-rocksdb bench-report bench-live-peers

bench: bench-env bench-rocksdb
	$(BENCH_PYTHON) bench/run.py $(BENCH_ARGS)

bench-live: bench-env
	$(BENCH_PYTHON) bench/live.py $(LIVE_ARGS)

# The project is installed anew each time, so that what is measured is what is here.
bench-env: $(BENCH_VENV)/installed
	$(BENCH_PYTHON) -m pip install --quiet --force-reinstall --no-deps .

$(BENCH_VENV)/installed: bench/requirements.txt
	python3 -m venv $(BENCH_VENV)
	$(BENCH_PYTHON) -m pip install --quiet -r bench/requirements.txt
	touch $@

# RocksDB is left out, and the page says so, where this package cannot be installed.
bench-rocksdb:
	command -v db_bench >/dev/null || apt-get install --yes --quiet rocksdb-tools || true

bench-live-peers: $(BENCH_VENV)/installed
	bench/live_peers/debian.sh

bench-report:
	$(BENCH_PYTHON) bench/report.py $(BENCH_RESULTS)
