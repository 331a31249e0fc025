"""Results on HDFS are there whole or not at all."""

import io
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import idmatch
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import NOON, Cli
from hdfs_cluster import Folder
from test_object_stores import FORMATS, rows_of

pytest_plugins = ["hdfs_cluster"]

ALL = Counter({("a", "x"): 1, ("a", "y"): 1, ("b", "x"): 1, ("c", "z"): 1})
MANY = 50_000


@pytest.mark.parametrize("format", FORMATS)
def test_formats(folder: Folder, table: idmatch.Table, format: str) -> None:
    name = f"a b/ü=1%2F/rows.{format}"
    table.scan().write(folder.url(name))
    assert rows_of(folder.get(name), format) == ALL
    assert folder.names() == [name]
    table.scan().write(folder.url(f"web.{format}", folder.web))
    assert rows_of(folder.get(f"web.{format}"), format) == ALL


def test_commands_write_both_outputs(folder: Folder, loaded: Cli) -> None:
    match = ["match", "store", "small", "people.parquet"]
    outputs = ["-o", folder.url("out.csv"), "--unmatched", folder.url("lost.csv")]
    assert loaded(*match, *outputs).code == 0
    assert rows_of(folder.get("out.csv"), "csv").total() == 3
    assert folder.get("lost.csv").startswith(b"id,reason\nnobody,")
    again = loaded(*match, *outputs)
    assert (again.code, "exists" in again.err) == (2, True)
    folder.put("people.parquet", (loaded.home / "people.parquet").read_bytes())
    people = folder.url("people.parquet")
    same = loaded(*match[:3], people, "-o", people, "--overwrite")
    assert (same.code, "is an input, too" in same.err) == (2, True)
    assert len(folder.names()) == 3


@pytest.mark.parametrize("by_web", [False, True])
def test_what_exists_is_replaced_when_that_is_said(
    folder: Folder, table: idmatch.Table, by_web: bool
) -> None:
    url = folder.url("out.csv", folder.web if by_web else "")
    folder.put("out.csv", b"mine")
    with pytest.raises(idmatch.InvalidArgument, match="exists"):
        table.scan().write(url)
    assert folder.get("out.csv") == b"mine"
    table.scan().write(url, overwrite=True)
    assert rows_of(folder.get("out.csv"), "csv") == ALL
    assert folder.names() == ["out.csv"]


@pytest.mark.parametrize("by_web", [False, True])
def test_folders(folder: Folder, table: idmatch.Table, by_web: bool) -> None:
    """They have their name when all is in them, and a name that is taken is refused."""
    url = folder.url("days", folder.web if by_web else "")
    table.scan().write(url, partition_by="partner_id", format="parquet")
    parts = [f"days/partner_id={value}/part-00001.parquet" for value in "xyz"]
    assert folder.names() == ["days/_SUCCESS", *parts]
    assert set(pq.read_table(io.BytesIO(folder.get(parts[0])))["id"].to_pylist()) == {"a", "b"}
    with pytest.raises(idmatch.InvalidArgument, match="exists"):
        table.scan().write(url, max_rows_per_file=1)
    assert folder.names() == ["days/_SUCCESS", *parts]


@pytest.fixture
def many(store: idmatch.Store) -> idmatch.Table:
    """A table that answers each of MANY ids."""
    ids = pa.array([f"i{number}" for number in range(MANY)])
    dates = pa.array([NOON] * MANY, pa.timestamp("ms", "UTC"))
    made = store.create_table("many")
    made.load(pa.table({"id": ids, "partner_id": ids, "seen_at": dates}))
    return made


def wide(batches: int, then: BaseException | None = None) -> Iterator[pa.RecordBatch]:
    """A population whose rows carry a kilobyte each; at its end an error may come."""
    for start in range(0, batches * 1000, 1000):
        ids = [f"i{number % MANY}" for number in range(start, start + 1000)]
        yield pa.record_batch({"id": ids, "wide": ["w" * 1000] * 1000})
    if then:
        raise then


def test_a_failure_leaves_nothing(folder: Folder, many: idmatch.Table) -> None:
    schema = pa.schema({"id": pa.string(), "wide": pa.string()})
    rows = pa.RecordBatchReader.from_batches(schema, wide(40, OSError("the source is gone")))
    with pytest.raises(idmatch.Error):
        many.match(rows, column="id", carry=["wide"]).write(folder.url("wide.csv"))
    assert folder.names() == []


def test_large_files_are_whole(folder: Folder, many: idmatch.Table) -> None:
    """200 MB, which are seven blocks."""
    schema = pa.schema({"id": pa.string(), "wide": pa.string()})
    rows = pa.RecordBatchReader.from_batches(schema, wide(200))
    many.match(rows, column="id", carry=["wide"]).write(folder.url("wide.csv"))
    got = pl.read_csv(io.BytesIO(folder.get("wide.csv")), columns=["id", "partner_id"])
    assert got.height == 200_000
    assert (got["id"] == got["partner_id"]).all()
    assert len(set(got["id"])) == MANY


_WRITER = """
import sys
import pyarrow as pa
import idmatch

def rows():
    yield pa.record_batch({"id": ["a"] * 20_000, "wide": ["w" * 1000] * 20_000})
    print("sent", flush=True)
    sys.stdin.read()

schema = pa.schema({"id": pa.string(), "wide": pa.string()})
with idmatch.open("store") as store:
    result = store.table("small").match(
        pa.RecordBatchReader.from_batches(schema, rows()), column="id", carry=["wide"]
    )
    result.write(sys.argv[1])
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_signal_leaves_no_file(folder: Folder, loaded: Cli, number: signal.Signals) -> None:
    """Where nobody can remove what was sent, it stays under a name that no reader takes."""
    command = [*loaded.command()[:1], "-c", _WRITER, folder.url("wide.csv")]
    with subprocess.Popen(
        command, cwd=loaded.home, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=-3
    ) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        watch = threading.Timer(60, writer.kill)
        watch.start()
        assert writer.stdout.readline() == b"sent\n"
        writer.send_signal(number)
        if number is signal.SIGINT:
            writer.stdin.close()
        writer.wait()
        watch.cancel()
    left = folder.names()
    if number is signal.SIGINT:
        assert left == []
    assert all(name.startswith(".idmatch-") for name in left)


def test_a_file_that_appears_meanwhile_stays(folder: Folder, many: idmatch.Table) -> None:
    def rows() -> Iterator[pa.RecordBatch]:
        yield from wide(2)
        folder.put("out.csv", b"theirs")

    schema = pa.schema({"id": pa.string(), "wide": pa.string()})
    reader = pa.RecordBatchReader.from_batches(schema, rows())
    with pytest.raises(idmatch.InvalidArgument, match="exists"):
        many.match(reader, column="id").write(folder.url("out.csv"))
    assert folder.names() == ["out.csv"]
    assert folder.get("out.csv") == b"theirs"


@pytest.mark.parametrize("scheme", ["hdfs", "webhdfs"])
def test_permissions(
    folder: Folder, table: idmatch.Table, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    folder.files._call("SETPERMISSION", method="put", path=folder.path, permission="755")
    monkeypatch.setenv("HADOOP_USER_NAME", "stranger")
    place = "hdfs://lab" if scheme == "hdfs" else folder.web
    with pytest.raises(idmatch.IoError, match=r"permission is denied .*HADOOP_USER_NAME"):
        table.scan().write(folder.url("out.csv", place))
    with pytest.raises(idmatch.IoError, match=r"permission is denied"):
        table.scan().write(folder.url("days", place), max_rows_per_file=1, format="csv")
    assert folder.names() == []


def test_names_of_no_file(folder: Folder, table: idmatch.Table, tmp_path: Path) -> None:
    for name in ("hdfs://lab/a//out.csv", "hdfs://lab/../out.csv", "hdfs://u@lab/out.csv"):
        with pytest.raises(idmatch.InvalidArgument, match="hdfs://lab"):
            table.scan().write(name)
