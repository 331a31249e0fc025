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
from damage import overwrite_segments
from hdfs_cluster import Folder
from hdfs_moments import Moments
from test_object_stores import FORMATS, rows_of

pytest_plugins = ["hdfs_cluster", "hdfs_moments"]

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


def wide(batches: int) -> pa.RecordBatchReader:
    """A population whose rows carry a kilobyte each."""
    schema = pa.schema({"id": pa.string(), "wide": pa.string()})

    def rows() -> Iterator[pa.RecordBatch]:
        for start in range(0, batches * 1000, 1000):
            ids = [f"i{number % MANY}" for number in range(start, start + 1000)]
            yield pa.record_batch({"id": ids, "wide": ["w" * 1000] * 1000})

    return pa.RecordBatchReader.from_batches(schema, rows())


def test_a_failure_leaves_nothing(
    folder: Folder, store: idmatch.Store, many: idmatch.Table, moments: Moments
) -> None:
    """Rows cannot be read to the end: some are sent by then."""
    store.drop_table("many")
    ids = pa.array([f"i{number:030}" for number in range(20 * MANY)])
    dates = pa.array([NOON] * len(ids), pa.timestamp("ms", "UTC"))
    table = store.create_table("large")
    table.load(pa.table({"id": ids, "partner_id": ids, "seen_at": dates}))
    overwrite_segments(Path(store.path), 8)
    with pytest.raises(idmatch.Corrupt):
        table.scan().write(folder.url("large.csv"))
    assert moments.bytes > 0
    assert folder.names() == []


def test_large_files_are_whole(folder: Folder, many: idmatch.Table) -> None:
    """200 MB, which are seven blocks."""
    many.match(wide(200), column="id", carry=["wide"]).write(folder.url("wide.csv"))
    got = pl.read_csv(io.BytesIO(folder.get("wide.csv")), columns=["id", "partner_id"])
    assert got.height == 200_000
    assert (got["id"] == got["partner_id"]).all()
    assert len(set(got["id"])) == MANY


_WRITER = """
import select, sys
import pyarrow as pa
import idmatch
from idmatch._hdfs import _native

write, sent = _native._NativeWriter.write, 0

def counted(self, data):
    global sent
    write(self, data)
    if sent < 4_000_000 <= sent + len(data):
        print("sent", flush=True)
        # A read would not see a signal that comes just before it.
        while not select.select([sys.stdin], [], [], 0.02)[0]:
            pass
    sent += len(data)

_native._NativeWriter.write = counted
with idmatch.open("store") as store:
    population = pa.table({"id": ["a"] * 20_000, "wide": ["w" * 1000] * 20_000})
    store.table("small").match(population, column="id", carry=["wide"]).write(sys.argv[1])
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
        (beside,) = folder.names()
        assert beside.startswith(".idmatch-")
        writer.send_signal(number)
        if number is signal.SIGINT:
            writer.stdin.close()
        writer.wait()
        watch.cancel()
    left = folder.names()
    if number is signal.SIGINT:
        assert left == []
    assert all(name.startswith(".idmatch-") for name in left)


def test_a_file_that_appears_meanwhile_stays(
    folder: Folder, many: idmatch.Table, moments: Moments
) -> None:
    moments.at(0, lambda: folder.put("out.csv", b"theirs"))
    with pytest.raises(idmatch.InvalidArgument, match="exists"):
        many.match(wide(2), column="id").write(folder.url("out.csv"))
    assert moments.are_over
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
