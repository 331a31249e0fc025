"""`idmatch.spark.match` on a store in a directory, beside Spark's sort-merge join of Parquet files.

    python bench/spark_match.py                                  1 M ids x 20 M rows; minutes
    python bench/spark_match.py --population 10M --rows 400M     hours, about 80 GB of disk

Both are asked in the same session, in turn, for the same aggregate over all columns of the result,
and must agree. The first answer of idmatch warms up, and is not counted; the join, which takes
minutes, is asked once. The session, the load and the checkpoint are not counted. A join that fails
is in the results with its reason. Times are in seconds. Needs PySpark 4, as
`requirements-spark.lock` has it.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import idmatch
import idmatch.spark
import machine
import pyspark
from data import DEFAULT_DIRECTORY, DEFAULT_SEED, DataSet, prepare
from job_store import TABLE, population_of, prepare_store
from progress import log
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from units import parse_count, show_count, show_seconds

Answer = tuple[int, int]
"""Rows, and a checksum of them in any order."""


def main() -> int:
    """Measures, prints and keeps the figures; 1 where the answers differ."""
    options = _options()
    data = prepare(options.dir, options.rows, options.seed)
    population = population_of(data, options.population)
    work = options.dir / "work" / "spark-match"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    try:
        found = _run(options, data, population, work)
    finally:
        shutil.rmtree(work)
    name = f"results-spark-{show_count(options.population)}-{show_count(options.rows)}.json"
    document = {
        "about": {
            "machine": machine.describe(options.dir),
            "command": shlex.join(["python", "bench/spark_match.py", *sys.argv[1:]]),
            "date": datetime.now(UTC).date().isoformat(),
            "idmatch": idmatch.__version__,
            "spark": pyspark.__version__,
        },
        **found,
    }
    (options.dir / name).write_text(json.dumps(document, indent=2) + "\n")
    answers = {tuple(figures["answer"]) for figures in found.values() if "answer" in figures}
    if len(answers) > 1:
        log(f"the answers differ: {sorted(answers)}")
        return 1
    return 0


def _run(
    options: argparse.Namespace, data: DataSet, population: Path, work: Path
) -> dict[str, dict[str, Any]]:
    store = options.store or work / "store"
    prepare_store(store, data)
    spark = _session(options, work)
    people = spark.read.parquet(str(population))
    rows = spark.read.parquet(*map(str, data.files))
    rows = rows.withColumn("seen_at", F.col("seen_at").cast("timestamp"))
    matched = idmatch.spark.match(people, str(store), TABLE, column="id")
    joined = people.join(rows, "id")
    plan = joined._jdf.queryExecution().executedPlan().toString()
    assert "SortMergeJoin" in plan, plan
    found = {"idmatch": _measured("idmatch", matched, options.runs)}
    if not options.no_join:
        found["sort-merge join"] = _measured("sort-merge join", joined, 0)
    spark.stop()
    return found


def _session(options: argparse.Namespace, work: Path) -> SparkSession:
    cores = os.cpu_count() or 1
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.driver.memory": options.memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.local.dir": work,
        "spark.sql.session.timeZone": "UTC",
        # The join would else be a broadcast at small sizes.
        "spark.sql.autoBroadcastJoinThreshold": -1,
        # A task for each core from the first file on.
        "spark.sql.files.minPartitionNum": cores,
        "spark.sql.files.openCostInBytes": 0,
    }
    builder = SparkSession.builder.master(f"local[{cores}]").appName("idmatch-bench")
    for name, value in settings.items():
        builder = builder.config(name, str(value))
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _measured(name: str, frame: DataFrame, runs: int) -> dict[str, Any]:
    """A warm-up and some runs, or the first alone for none; or why it failed."""
    try:
        answer, warm_up = _timed(lambda: _asked(frame))
        times = [_timed(lambda: _asked(frame))[1] for _ in range(runs)] or [warm_up]
    except Exception as error:
        log(f"{name}: FAILED: {error}")
        return {"failed": f"{type(error).__name__}: {str(error)[:1000]}"}
    median = statistics.median(times)
    log(f"{name}: {show_seconds(median)} (first {show_seconds(warm_up)}), {answer[0]:,} rows")
    return {"median": median, "times": times, "warm_up": warm_up, "answer": answer}


def _asked(frame: DataFrame) -> Answer:
    hashes = F.xxhash64("id", "partner_id", "seen_at")
    (row,) = frame.agg(F.count("*"), F.bit_xor(hashes)).collect()
    return int(row[0]), int(row[1] or 0)


def _timed(call: Callable[[], Answer]) -> tuple[Answer, float]:
    began = time.perf_counter()
    answer = call()
    return answer, time.perf_counter() - began


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=parse_count, default=20_000_000)
    parser.add_argument("--population", type=parse_count, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--memory", default="4g", help="of Spark's JVM")
    parser.add_argument(
        "--store", type=Path, help="a store that is kept; default: one for this run"
    )
    parser.add_argument("--no-join", action="store_true", help="leaves out Spark's own join")
    parser.add_argument("--dir", type=Path, default=DEFAULT_DIRECTORY)
    parser.add_argument("--seed", type=int, default=DEFAULT_SEED)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
