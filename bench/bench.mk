# Targets of the benchmark; the Makefile at the top includes this file.
#
#   make bench                      everything at full size: hours, about 60 GB of disk; root for the cold runs
#   make bench BENCH_ARGS="--rows 4M"    everything, small: minutes
#   make bench-live                 writing while reading: an hour, about 40 GB of disk
#   make bench-live LIVE_ARGS="--rows 2M --seconds 10"    the same, small: minutes
#   make bench-report               the parts of docs/benchmarks from the results of BENCH_RESULTS, and so on:
#   make bench-live-report          from LIVE_RESULTS and PEER_RESULTS
#   make bench-cql-report           from CQL_RESULTS
#   make bench-cql-faults-report    from FAULTS_RESULTS
#   make bench-live-peers           the same for its peers, in a smaller table: half an hour, 20 GB of disk, root
#   make bench-cql                  on a Cassandra node, beside its peers: more than an hour, 15 GB of disk, Java 17 and Maven
#   make bench-cql CQL_ARGS="--rows 200k --warm-up-requests 100k --warm-up-seconds 1 --rounds 1"    the same, small: minutes
#   make bench-cql-faults           three nodes that fail; Java 17 and Maven
#   make bench-waits                single writes beside verify, backup and compaction: minutes
#   make bench-overheads            what positions cost a match, and open snapshots upserts: minutes; OVERHEADS_ARGS="--rows 1M"
#   make bench-stops                how soon long operations end after Ctrl-C: an hour, about 12 GB of disk
#   make bench-spark                matches of Spark beside its own join: minutes; SPARK_ARGS="--rows 400M --population 10M": hours
#   make bench-dask                 matches of Dask beside the command line and its own merge: minutes; DASK_ARGS=--servers: on Cassandra
#   make bench-far-reads            matches of files on HDFS and of tables of Hive beside a local file: minutes; FAR_ARGS="--population 10M"
#   make bench-outputs              memory and seconds of carried columns, chains and plain results: 15 GB of disk; OUTPUTS_ARGS="--rows 1M": a minute
#   make bench-pair PAIR_ARGS="--base REV"    two commits, in turn; --help tells more

BENCH_VENV    ?= bench/.venv
BENCH_PYTHON  ?= $(BENCH_VENV)/bin/python
BENCH_ARGS    ?=
LIVE_ARGS     ?=
PEERS         ?= idmatch rocksdb lmdb sqlite postgresql redis
PEER_ARGS     ?= --rows 10M --seconds 30 --disk-limit 40G --prepare 900k
BENCH_RESULTS ?= /var/tmp/idmatch-bench/results-400M-seed7.json

PAIR_ARGS     ?=
WAITS_ARGS    ?=
OVERHEADS_ARGS ?=
STOPS_ARGS    ?=
SPARK_ARGS    ?=
DASK_ARGS     ?=
FAR_ARGS      ?=
OUTPUTS_ARGS  ?=
CQL_ARGS      ?=
FAULTS_ARGS   ?=
FAULTS_RESULTS ?= /var/tmp/idmatch-bench/results-cql-faults-2M.json
CQL_RESULTS   ?= /var/tmp/idmatch-bench/results-cql-5M-seed7.json

# Where the connector's jars are; peers that are never in one environment.
SPARK_JARS    ?= /var/tmp/idmatch-bench/spark-connector
DASK_VENV     := bench/.venv-dask
SPARK_VENV    := bench/.venv-spark

LIVE_RESULTS  ?= /var/tmp/idmatch-bench/results-live-100M-seed7.json
PEER_RESULTS  ?= /var/tmp/idmatch-bench/results-live-peers.json

REPORT = cd bench && $(abspath $(BENCH_PYTHON)) -m report

.PHONY: bench bench-live bench-env bench-rocksdb bench-report bench-live-peers bench-live-peers-env bench-live-report \
	bench-cql bench-cql-env bench-cql-report bench-cql-faults bench-cql-faults-report bench-pair bench-dask bench-far-reads bench-spark bench-spark-env \
	bench-outputs bench-overheads bench-stops bench-waits

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

# A peer that fails is in the results with its reason.
bench-live-peers: bench-live-peers-env
	mkdir -p /var/tmp/idmatch-bench/work
	cd bench && for peer in $(PEERS); do \
		$(abspath $(BENCH_PYTHON)) -m live_peers.run --peer $$peer --workspace /var/tmp/idmatch-bench/work \
			--results $(PEER_RESULTS) $(PEER_ARGS) >/dev/null || true; done

bench-live-peers-env: bench-env
	bench/live_peers/debian.sh

bench-report:
	$(REPORT) join $(BENCH_RESULTS)

bench-live-report:
	$(REPORT) live $(LIVE_RESULTS) --peers $(PEER_RESULTS)

# cassandra-driver and Spark have environments of their own; idmatch is in that of the others.
bench-cql: bench-cql-env
	IDMATCH_BENCH_SPARK_JARS=$(SPARK_JARS) $(BENCH_PYTHON) bench/cql.py $(CQL_ARGS)

bench-cql-env: bench-env bench-spark-env $(DASK_VENV)/installed $(SPARK_VENV)/installed $(SPARK_JARS)/fetched

$(DASK_VENV)/installed $(SPARK_VENV)/installed: bench/.venv-%/installed: bench/requirements-%.txt
	python3 -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet -r $<
	touch $@

$(SPARK_JARS)/fetched: bench/cql_peers/pom.xml
	mvn --batch-mode --quiet --file $< dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=$(SPARK_JARS)
	touch $@

bench-cql-report:
	$(REPORT) servers $(CQL_RESULTS)

bench-cql-faults: bench-env
	$(BENCH_PYTHON) bench/cql_faults.py $(FAULTS_ARGS)

bench-cql-faults-report:
	$(REPORT) faults $(FAULTS_RESULTS)

# Two commits in turn; --base names the one to compare with, such as --base main --rows 1M.
bench-pair: $(BENCH_VENV)/installed
	$(BENCH_PYTHON) bench/pair.py $(PAIR_ARGS)

bench-far-reads: bench-env
	$(BENCH_PYTHON) -m pip install --quiet '.[hdfs,hive,lab]'
	$(BENCH_PYTHON) bench/far_reads.py $(FAR_ARGS)

bench-dask: $(DASK_VENV)/installed
	$(DASK_VENV)/bin/python -m pip install --quiet --force-reinstall --no-deps .
	$(DASK_VENV)/bin/python bench/dask_match.py $(DASK_ARGS)

bench-spark: bench-spark-env
	$(VENV)-spark/bin/python bench/spark_match.py $(SPARK_ARGS)

# PySpark 4, and idmatch as it is here.
bench-spark-env: $(VENV)-spark/tools
	$(VENV)-spark/bin/python -m pip install --quiet --force-reinstall --no-deps .

bench-outputs: bench-env
	$(BENCH_PYTHON) bench/outputs.py $(OUTPUTS_ARGS)

bench-stops: bench-env
	$(BENCH_PYTHON) bench/stops.py $(STOPS_ARGS)

bench-overheads: bench-env
	$(BENCH_PYTHON) bench/overheads.py $(OVERHEADS_ARGS)

bench-waits:
	python3 bench/waits.py $(WAITS_ARGS)
