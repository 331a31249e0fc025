"""A population from HDFS and one from Hive, through Dask, in a directory and on Cassandra."""

import os
import subprocess
import sys
from io import BytesIO
from pathlib import Path

import idmatch
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from example import EXAMPLES
from hive_server import Database

pytest_plugins = ["hive_server"]

PEOPLE = 3_000
_COUNTED = f"SELECT posexplode(split(space({PEOPLE - 1}), ' ')) AS (n, x)"
NUMBERS = f"SELECT concat('c', n), n FROM ({_COUNTED}) q"


def people(numbers: range) -> pa.Table:
    ids = [f"c{number}" for number in numbers]
    return pa.table({"cookie": ids, "city": ["Rome"] * len(ids)})


@pytest.mark.parametrize("backend", ["directory", "cql"])
def test_the_pipeline(database: Database, tmp_path: Path, backend: str) -> None:
    address = str(tmp_path / "store")
    if backend == "cql":
        address = f"cql://{os.environ['IDMATCH_TEST_CQL']}/{database.name}?replication=1"
    database.run(
        "CREATE TABLE people (cookie STRING, n INT) PARTITIONED BY (k INT) STORED AS PARQUET",
        *(f"INSERT INTO people PARTITION (k={k}) {NUMBERS} WHERE n % 2 = {k}" for k in (0, 1)),
    )
    with idmatch.open(address) as store:
        table = store.create_table("partner")
        # Each third has two partner IDs.
        ids = [f"c{number}" for number in range(0, PEOPLE, 3) for _ in range(2)]
        partner_ids = [f"p{at}" for at in range(len(ids))]
        table.load(pa.table({"id": ids, "partner_id": partner_ids}), dated="2026-11-20")
    for part in range(3):
        file = BytesIO()
        pq.write_table(people(range(part * 500, part * 500 + 500)), file)
        database.put(f"delivered/part{part}.parquet", file.getvalue())
    sources = [f"hdfs://lab{database.folder('delivered')}/*.parquet", database.url("people")]
    ran = subprocess.run(
        [sys.executable, EXAMPLES / "pipeline.py", address, "partner", "cookie", *sources],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == ["1,500 people, 1,000 IDs", "3,000 people, 2,000 IDs"]
