"""`idmatch tables`: figures of metadata and counted ones, and what fails in the writer."""

import os
import time
from typing import Any

import idmatch
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import NOON, SMALL, Cli, observations
from damage import overwrite_segments


@pytest.fixture
def twice(loaded: Cli) -> Cli:
    """The table has a second segment with half of its pairs, and one new row."""
    pq.write_table(SMALL.slice(0, 2), loaded.home / "again.parquet")
    pq.write_table(observations(("new", "x", NOON)), loaded.home / "new.parquet")
    assert loaded("load", "store", "small", "again.parquet", "new.parquet").code == 0
    return loaded


def many() -> pa.Table:
    """So many rows that the middle of a segment has none of its metadata."""
    return observations(*((f"id{n:08}", f"p{n:08}", NOON) for n in range(20_000)))


def shown(cli: Cli, *options: str) -> dict[str, str]:
    """The line of the only table, by the names of its columns."""
    header, line, *_ = cli("tables", "store", *options).out.splitlines()
    return dict(zip(header.split(), line.split(), strict=False))


def test_estimates_are_marked(twice: Cli) -> None:
    """Segments overlap: what differs is known only when it is counted."""
    line = shown(twice)
    assert (line["ids"], line["pairs"], line["rows"]) == ("~5", "~7", "7")
    counted = shown(twice, "--count")
    assert (counted["ids"], counted["pairs"], counted["rows"]) == ("4", "5", "7")


def test_only_metadata_are_read(cli: Cli) -> None:
    """Rows that are damaged are seen by those who count them."""
    pq.write_table(many(), cli.home / "many.parquet")
    assert cli("load", "store", "crm", "many.parquet").code == 0
    line = shown(cli)
    assert line["rows"] == "20,000"
    overwrite_segments(cli.home / "store", 8)
    assert shown(cli) == line
    counted = cli("tables", "store", "--count")
    assert counted.code == 1
    assert ".seg" in counted.err


def test_what_fails_in_the_writer_is_told(cli: Cli) -> None:
    """By the note that it renews."""
    rows = many()
    with idmatch.open(cli.home / "store", memtable="1M", record=True) as store:
        table = store.create_table("crm")
        table.load(rows)
        overwrite_segments(cli.home / "store", 4096)
        while store.status().last_background_error is None:
            table.upsert(rows)
        writer: dict[str, Any] = {}
        while not writer.get("last_background_error"):
            time.sleep(0.1)
            writer = cli("tables", "store", "--json").json()["writer"] or {}
        said = cli("tables", "store").err
    assert writer["pid"] == os.getpid()
    assert f"the compaction of the process that writes (pid {os.getpid()}) fails since" in said
