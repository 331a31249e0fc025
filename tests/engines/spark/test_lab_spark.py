"""`idmatch lab up --with spark`: what the command starts, and that it ends."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from spark_session import environment

_NETWORK = "127.73.62"
# Counts the rows of a store, by executors of the cluster.
_PROGRAM = """
import sys
import idmatch
import pyarrow as pa
from pyspark.sql import SparkSession

master, store = sys.argv[1:]
with idmatch.open(store) as opened:
    rows = pa.table({"id": ["a", "b", "c"], "partner_id": ["x", "y", "z"]})
    opened.create_table("crm").load(rows, dated="2026-03-01")
spark = SparkSession.builder.master(master).config("spark.driver.host", "127.0.0.1").getOrCreate()
source = spark.read.format("idmatch").options(store=store, table="crm", partitions=2)
print(source.load().count())
"""


def lab(home: Path, *words: object) -> Any:
    """The document that a command of the lab prints."""
    program = "from idmatch._cli import run; run()"
    command = [sys.executable, "-c", program, "lab", *map(str, words), "--dir", str(home), "--json"]
    ran = subprocess.run(
        command, env=os.environ | environment(), stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(ran.stdout)


def pids(document: Any) -> list[int]:
    """The processes of Spark."""
    return [each["pid"] for each in document["services"]["spark"]["daemons"]]


def test_a_lab_with_spark(tmp_path: Path) -> None:
    home = tmp_path / "lab"
    try:
        started = lab(home, "up", "--nodes", 0, "--with", "spark", "--network", _NETWORK)
        spark = started["services"]["spark"]
        assert [each["state"] for each in spark["daemons"]] == ["up"] * 3
        job = [sys.executable, "-c", _PROGRAM, spark["address"], tmp_path / "store"]
        variables = os.environ | environment() | spark["environment"]
        ran = subprocess.run(job, env=variables, capture_output=True, text=True)
        assert (ran.returncode, ran.stdout) == (0, "3\n"), ran.stderr
        again = lab(home, "up", "--nodes", 0, "--with", "spark", "--network", _NETWORK)
        assert pids(again) == pids(started)
    finally:
        ended = lab(home, "down")
    assert [each["state"] for each in ended["services"]["spark"]["daemons"]] == ["down"] * 3
