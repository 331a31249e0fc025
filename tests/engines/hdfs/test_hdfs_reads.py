"""Files of HDFS are read as files of this machine are."""

import gzip
import io
from pathlib import Path

import idmatch
import pyarrow as pa
import pyarrow.csv
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from conftest import NOON, SMALL, Cli
from hdfs_cluster import NETWORK, Folder
from idmatch._lab import Hdfs

pytest_plugins = ["hdfs_cluster"]


def packed(rows: pa.Table, kind: str) -> bytes:
    """Rows as a file of a kind."""
    file = io.BytesIO()
    match kind:
        case "parquet":
            pq.write_table(rows, file)
        case "orc":
            pyarrow.orc.write_table(rows, file)
        case _:
            pyarrow.csv.write_csv(rows, file)
    return gzip.compress(file.getvalue()) if kind.endswith("gz") else file.getvalue()


@pytest.fixture
def empty(store: idmatch.Store) -> idmatch.Table:
    """A table that is loaded in a test."""
    return store.create_table("loaded")


@pytest.mark.parametrize("kind", ["parquet", "orc", "csv", "csv.gz"])
def test_formats(folder: Folder, empty: idmatch.Table, kind: str) -> None:
    folder.put(f"rows.{kind}", packed(SMALL, kind))
    assert empty.load(folder.url(f"rows.{kind}")).rows == SMALL.num_rows
    assert empty.lookup("b") == [("x", SMALL["seen_at"][3].as_py())]
    assert pa.table(empty.scan()).num_rows == 4


@pytest.mark.parametrize(
    "place",
    [
        "hdfs://",
        "hdfs://lab",
        f"hdfs://{NETWORK}.1",
        f"HDFS://{NETWORK}.1:8020",
        f"webhdfs://{NETWORK}.1",
        f"webhdfs://{NETWORK}.1:9870",
    ],
)
def test_places(folder: Folder, empty: idmatch.Table, place: str) -> None:
    """Files, folders and patterns, by name service and by namenode; names are as they are."""
    assert folder.cluster.active == 1
    parts = {f"day=a%2Fb/ü {n}.parquet": SMALL.slice(n, 1) for n in range(SMALL.num_rows)}
    for name, rows in parts.items():
        folder.put(name, packed(rows, "parquet"))
    folder.put("day=c/none.csv", b"id,partner_id,seen_at\nnone,none,2026-01-01\n")
    for source, count in [("day=a%2Fb/ü 2.parquet", 1), ("day=a%2Fb", 5), ("*/*.parquet", 5)]:
        assert empty.load(folder.url(source, place)).rows == count, source
    assert pa.table(empty.scan()).num_rows == 4
    assert empty.lookup("none") == []


def test_commands(folder: Folder, loaded: Cli) -> None:
    folder.put("people.parquet", (loaded.home / "people.parquet").read_bytes())
    folder.put("more.csv", b"id,partner_id,seen_at\nmore,m,2026-01-01\n")
    load = loaded("load", "store", "small", folder.url("more.csv"), "--json")
    assert load.json()["rows"] == 1
    match = loaded("match", "store", "small", folder.url("people.parquet"), "--json")
    assert match.json()["matched"] == 2
    erase = ["erase", "store", "small", folder.url("people.parquet"), "--columns", "id"]
    assert loaded(*erase).code == 0
    assert loaded("lookup", "store", "small", "--id", "a", "--json").json()["matches"] == []


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("hdfs://lab{}/none.csv", "there is no such file"),
        ("hdfs://lab{}/*.csv", "no file matches"),
        ("webhdfs://127.73.70.1{}/none.csv", "there is no such file"),
        ("hdfs://127.73.70.2{}/none.csv", "standby"),
        ("webhdfs://127.73.70.2{}/none.csv", "standby"),
        ("hdfs://127.73.70.9{}/none.csv", "no namenode answers .*refused"),
        ("webhdfs://127.73.70.9{}/none.csv", "no namenode answers .*refused"),
        ("hdfs://none.invalid{}/none.csv", "no namenode answers"),
        ("webhdfs://none.invalid{}/none.csv", "no namenode answers .*not known"),
    ],
)
def test_reasons(folder: Folder, empty: idmatch.Table, name: str, reason: str) -> None:
    with pytest.raises(idmatch.SourceError, match=reason) as raised:
        empty.load(name.format(folder.path))
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 400


@pytest.mark.parametrize(
    "url", ["hdfs://user:se-cret@lab/a.csv", "hdfs://lab/a.csv?key=se-cret", "hdfs://lab:x/a"]
)
def test_wrong_addresses(hdfs: Hdfs, empty: idmatch.Table, url: str) -> None:
    with pytest.raises(idmatch.InvalidArgument, match="hdfs://lab") as raised:
        empty.load(url)
    assert "se-cret" not in str(raised.value)


@pytest.mark.parametrize("scheme", ["hdfs", "webhdfs"])
def test_permissions(
    folder: Folder, empty: idmatch.Table, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    folder.put("mine.csv", b"id,partner_id,seen_at\n")
    folder.files._call("SETPERMISSION", method="put", path=folder.path, permission="700")
    monkeypatch.setenv("HADOOP_USER_NAME", "stranger")
    place = "hdfs://lab" if scheme == "hdfs" else folder.web
    with pytest.raises(idmatch.SourceError, match=r"permission is denied .*HADOOP_USER_NAME"):
        empty.load(folder.url("mine.csv", place))


def test_a_missing_configuration_is_named(
    hdfs: Hdfs, empty: idmatch.Table, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    with pytest.raises(idmatch.InvalidArgument, match="HADOOP_CONF_DIR"):
        empty.load("hdfs:///tests/any.csv")


def test_a_result_in_memory_takes_a_file_of_hdfs(folder: Folder, table: idmatch.Table) -> None:
    folder.put("people.csv", b"id\na\nnobody\n")
    result = table.match(folder.url("people.csv"), column="id", pick="latest")
    assert pa.table(result).to_pylist() == [{"id": "a", "partner_id": "x", "seen_at": NOON}]
