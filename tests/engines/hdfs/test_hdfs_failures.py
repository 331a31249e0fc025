"""Servers of HDFS fail while a file of a gigabyte is read and written, and answers stay right."""

import io
import os
import threading
from collections.abc import Callable, Iterator

import idmatch
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hdfs_cluster import Folder
from idmatch._lab import Hdfs

pytest_plugins = ["hdfs_cluster"]

GROUP = 100_000
GROUPS = int(os.environ.get("IDMATCH_TEST_HDFS_GROUPS", "100"))
"""Of rows; each is about 10 MB."""


def group(number: int) -> pa.Table:
    """Rows with ids of 100 characters, which are not to be compressed."""
    ids = [f"{at:09}-" + os.urandom(45).hex() for at in range(number * GROUP, (number + 1) * GROUP)]
    return pa.table({"id": ids})


@pytest.fixture
def large(folder: Folder) -> Folder:
    """A folder with the file large.parquet."""
    sink = folder.files.open(f"{folder.path}/large.parquet", "wb", block_size=32 << 20)
    with sink, pq.ParquetWriter(sink, group(0).schema, use_dictionary=False) as writer:
        for number in range(GROUPS):
            writer.write_table(group(number))
    return folder


def repaired(cluster: Hdfs) -> Iterator[Hdfs]:
    """A cluster that is whole again after a test."""
    yield cluster
    for number, datanode in enumerate(cluster.datanodes, 1):
        if datanode.process is None:
            cluster.start_datanode(number)
    if cluster.active != 1:
        cluster.fail_over()


cluster = pytest.fixture(repaired)


class Counted:
    """Counts rows, and calls functions at some of the counts."""

    def __init__(self, at: dict[int, Callable[[], object]]) -> None:
        self.rows = 0
        self._at = dict(at)

    def __call__(self, rows: int) -> None:
        self.rows += rows
        for count in [count for count in self._at if self.rows >= count]:
            self._at.pop(count)()


def test_a_read_goes_on(cluster: Hdfs, large: Folder, store: idmatch.Store) -> None:
    """A datanode is killed after a quarter of it, and the active namenode changes at half."""
    size = large.files.info(f"{large.path}/large.parquet")["size"]
    assert size > GROUPS * 9e6
    total = GROUP * GROUPS
    counted = Counted(
        {total // 4: lambda: cluster.kill_datanode(1), total // 2: lambda: cluster.fail_over()}
    )
    result = store.create_table("none").match(large.url("large.parquet"), how="left", carry=["id"])
    seen = hash_of = 0
    for batch in pa.RecordBatchReader.from_stream(result):
        counted(batch.num_rows)
        seen += batch.num_rows
        hash_of += sum(int(str(id)[:9]) for id in batch["id"].to_pylist())
    assert cluster.datanodes[0].process is None
    assert cluster.active == 2
    assert (seen, hash_of) == (total, total * (total - 1) // 2)


def test_a_write_goes_on(cluster: Hdfs, folder: Folder, store: idmatch.Store) -> None:
    """A datanode is killed and the active namenode changes while a result is written."""
    groups = max(GROUPS // 5, 4)
    total = GROUP * groups
    counted = Counted(
        {total // 4: lambda: cluster.kill_datanode(1), total // 2: lambda: cluster.fail_over()}
    )

    def rows() -> Iterator[pa.RecordBatch]:
        for number in range(groups):
            counted(GROUP)
            yield from group(number).to_batches()

    reader = pa.RecordBatchReader.from_batches(group(0).schema, rows())
    result = store.create_table("none").match(reader, column="id", how="left")
    result.write(folder.url("out.parquet"))
    got = pq.read_table(io.BytesIO(folder.get("out.parquet")), columns=["id"])["id"]
    assert sorted(int(str(id)[:9]) for id in got.to_pylist()) == list(range(total))
    assert folder.names() == ["out.parquet"]


def test_a_namenode_that_does_not_answer(
    cluster: Hdfs, folder: Folder, store: idmatch.Store
) -> None:
    """The error comes within two minutes, and says which server it was."""
    table = store.create_table("none")
    folder.put("few.csv", b"id,partner_id,seen_at\na,x,2026-01-01\n")
    processes = [namenode.process for namenode in cluster.namenodes]
    for process in processes:
        assert process is not None
        process.suspend()

    def resume() -> None:
        for process in processes:
            if process:
                process.resume()

    stop = threading.Timer(240, resume)
    stop.start()
    try:
        with pytest.raises(idmatch.SourceError, match="no namenode has answered for 60 s"):
            table.load(folder.url("few.csv"))
        assert stop.is_alive()
    finally:
        stop.cancel()
        resume()
    assert table.load(folder.url("few.csv")).rows == 1


def test_datanodes_that_do_not_answer(cluster: Hdfs, folder: Folder, store: idmatch.Store) -> None:
    table = store.create_table("none")
    folder.put("few.csv", b"id,partner_id,seen_at\na,x,2026-01-01\n")
    processes = [datanode.process for datanode in cluster.datanodes]
    for process in processes:
        assert process is not None
        process.suspend()
    try:
        with pytest.raises(idmatch.SourceError, match="no datanode"):
            table.load(folder.url("few.csv"))
    finally:
        for process in processes:
            if process:
                process.resume()
    assert pa.table(table.scan()).num_rows == 0
    assert table.load(folder.url("few.csv")).rows == 1
