"""Rows that break the rules: counted, written with their place, never dropped in silence."""

import csv
import os
import signal
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

import idmatch
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import NOON, SMALL

LINES = """\
id,partner_id,seen_at
a,x,2026-03-01
,x,2026-03-01
b,y

c,z,2026-03-01,more
d,"quo""ted
line",2026-03-01
e,x,soon
007,NA,2026-03-01
f,\xff\xfe,2026-03-01
"g",,2026-03-01
h,x,
"""


@pytest.fixture
def empty(store: idmatch.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> idmatch.Table:
    monkeypatch.chdir(tmp_path)
    return store.create_table("loaded")


def rejected(path: str | None) -> list[tuple[int, str]]:
    """The row and column of everything in a rejects file."""
    assert path is not None
    with open(path, newline="") as file:
        return sorted((int(line["row"]), line["column"]) for line in csv.DictReader(file))


def test_csv_rows_keep_their_numbers(empty: idmatch.Table, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_bytes(LINES.encode("latin-1"))
    report = empty.load("rows.csv")
    assert report.rejects is not None
    assert Path(report.rejects).parent == tmp_path / "store.rejects"
    assert rejected(report.rejects) == [
        (2, "id"),
        (3, ""),
        (4, ""),
        (6, "seen_at"),
        (8, "partner_id"),
        (9, "partner_id"),
        (10, "seen_at"),
    ]
    assert (report.rows, report.rejected) == (10, 7)
    text = Path(report.rejects).read_text()
    assert text.startswith("file,row,column,reason\n")
    assert "rows.csv,3,,has 2 fields instead of 3\n" in text
    assert "rows.csv,4,,has 4 fields instead of 3\n" in text
    midnight = NOON.replace(hour=0)
    assert empty.latest_partner_id("d") == ('quo"ted\nline', midnight)
    assert empty.latest_partner_id("007") == ("NA", midnight)


def test_parquet_rows_have_numbers_of_their_file(empty: idmatch.Table, tmp_path: Path) -> None:
    for name, bad in (("1.parquet", 0), ("2.parquet", 3)):
        ids = SMALL.column("id").to_pylist()
        ids[bad] = "x" * 1025
        pq.write_table(SMALL.set_column(0, "id", [ids]), tmp_path / name, row_group_size=2)
    report = empty.load("*.parquet", rejects="mine.csv")
    assert (report.rows, report.rejected, report.rejects) == (10, 2, "mine.csv")
    assert rejected("mine.csv") == [(1, "id"), (4, "id")]
    assert "1.parquet,1,id," in Path("mine.csv").read_text()


def test_every_reason(empty: idmatch.Table) -> None:
    good: dict[str, bytes | str | None] = {"id": b"a", "partner_id": b"x", "seen_at": "2026-03-01"}
    wrong: dict[str, list[bytes | str | None]] = {
        "id": [None, b"", b"\xff", b"x" * 1025],
        "partner_id": [None, b"", b"\xff", b"x" * 1025],
        "seen_at": [None, "", "soon", "1969-12-31T23:59:59Z", "9999-01-01"],
    }
    rows = [good | {column: value} for column, values in wrong.items() for value in values]
    report = empty.load(pa.Table.from_pylist([*rows, good]))
    assert report.rejected == len(rows)
    expected = [column for column, values in wrong.items() for _ in values]
    assert [column for _, column in rejected(report.rejects)] == expected


def test_good_rows_make_no_file(empty: idmatch.Table, tmp_path: Path) -> None:
    assert empty.load(SMALL).rejects is None
    assert list(tmp_path.glob("*.csv")) == []


def test_strict_loads_nothing(empty: idmatch.Table, tmp_path: Path) -> None:
    empty.load(SMALL)
    (tmp_path / "rows.csv").write_text("id,partner_id,seen_at\nq,x,2026-03-01\nq,,2026-03-01\n")
    with pytest.raises(idmatch.BadInput, match=r"rows\.csv.*row 2.*partner_id"):
        empty.load("rows.csv", strict=True)
    (tmp_path / "lines.csv").write_text("id,partner_id,seen_at\nq,x,2026-03-01\nq\n")
    with pytest.raises(idmatch.BadInput, match=r"lines\.csv, row 2: has 1 fields"):
        empty.load("lines.csv", strict=True)
    assert empty.latest_partner_id("q") is None
    assert empty.latest_partner_id("a") == ("x", NOON)
    assert list(tmp_path.glob("store.rejects/*")) == []


def test_rejects_that_cannot_be_written(empty: idmatch.Table) -> None:
    with pytest.raises(idmatch.IoError, match=r"nowhere/rejects\.csv"):
        empty.load(SMALL.set_column(0, "id", [[""] * 5]), rejects="nowhere/rejects.csv")
    assert empty.partner_ids("a").num_rows == 0


@pytest.mark.parametrize("rows", [1, 1_000_000])
def test_a_malformed_population_is_an_error(
    empty: idmatch.Table, tmp_path: Path, rows: int
) -> None:
    (tmp_path / "people.csv").write_text("id,name\n" + "a,Anna\n" * rows + "marked\n")
    problem = rf"^people\.csv, row {rows + 1}: has 1 fields instead of 2$"
    with pytest.raises(idmatch.SourceError, match=problem) as raised:
        empty.match("people.csv", column="id")
    # The line has an identifier.
    assert "marked" not in "".join(traceback.format_exception(raised.value))


def test_ctrl_c_loads_nothing(empty: idmatch.Table) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield from SMALL.to_batches()
        os.kill(os.getpid(), signal.SIGINT)
        while True:
            yield from SMALL.to_batches()
            time.sleep(0.001)

    # A process that was started in the background ignores the signal, and so would Python.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            empty.load(pa.RecordBatchReader.from_batches(SMALL.schema, batches()))
    finally:
        signal.signal(signal.SIGINT, before)
    assert empty.partner_ids("a").num_rows == 0
    assert empty.load(SMALL).rows == 5
