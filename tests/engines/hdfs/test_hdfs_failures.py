"""Servers of HDFS fail while a file of a gigabyte is read and written, and answers stay right."""

import io
import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import idmatch
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hdfs_cluster import Folder
from hdfs_moments import Moments
from idmatch._lab import Hdfs

pytest_plugins = ["hdfs_cluster", "hdfs_moments"]

GROUP = 100_000
GROUPS = int(os.environ.get("IDMATCH_TEST_HDFS_GROUPS", "100"))
"""Of rows; each is about 10 MB."""
GROUP_BYTES = 10_000_000
WRITTEN = max(GROUPS // 5, 4)
ALL = WRITTEN * GROUP


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


@pytest.fixture
def cluster(hdfs: Hdfs) -> Iterator[Hdfs]:
    """The cluster, which is whole again after a test."""
    yield hdfs
    for number, datanode in enumerate(hdfs.datanodes, 1):
        if datanode.process is None:
            hdfs.start_datanode(number)
    if hdfs.active != 1:
        hdfs.fail_over()


def test_a_read_goes_on(
    cluster: Hdfs, large: Folder, store: idmatch.Store, moments: Moments
) -> None:
    """The active namenode changes at a quarter of it, and a datanode is killed at half."""
    size = large.files.info(f"{large.path}/large.parquet")["size"]
    assert size > GROUPS * 9e6
    moments.at(size // 4, cluster.fail_over)
    moments.at(size // 2, lambda: cluster.kill_datanode(1))
    result = store.create_table("none").match(
        large.url("large.parquet"), how="left", carry=["id as own"]
    )
    assert moments.are_over
    total = GROUP * GROUPS
    seen = hash_of = 0
    for batch in pa.RecordBatchReader.from_stream(result):
        seen += batch.num_rows
        hash_of += sum(int(str(id)[:9]) for id in batch["own"].to_pylist())
    assert cluster.datanodes[0].process is None
    assert cluster.active == 2
    assert (seen, hash_of) == (total, total * (total - 1) // 2)


@pytest.fixture
def result(store: idmatch.Store) -> idmatch.MatchResult:
    """ALL ids, which match nothing. They are kept here: nothing of them is read again."""
    groups = (batch for number in range(WRITTEN) for batch in group(number).to_batches())
    reader = pa.RecordBatchReader.from_batches(group(0).schema, groups)
    return store.create_table("none").match(reader, column="id", how="left")


def is_whole(folder: Folder) -> bool:
    """Whether out.parquet has ALL ids, and is alone."""
    got = pq.read_table(io.BytesIO(folder.get("out.parquet")), columns=["id"])["id"]
    ids = sorted(int(str(id)[:9]) for id in got.to_pylist())
    return ids == list(range(ALL)) and folder.names() == ["out.parquet"]


def test_a_write_goes_on(
    cluster: Hdfs, folder: Folder, result: idmatch.MatchResult, moments: Moments
) -> None:
    """The active namenode changes."""
    moments.at(2 * GROUP_BYTES, cluster.fail_over)
    result.write(folder.url("out.parquet"))
    assert moments.are_over
    assert cluster.active == 2
    assert is_whole(folder)


def test_a_write_is_whole_or_not_there(
    cluster: Hdfs, folder: Folder, result: idmatch.MatchResult, moments: Moments
) -> None:
    """A datanode is killed; the namenode may still give it blocks for some seconds."""
    moments.at(2 * GROUP_BYTES, lambda: cluster.kill_datanode(1))
    with suppress(idmatch.IoError):
        result.write(folder.url("out.parquet"))
        assert is_whole(folder)
        folder.files.rm(f"{folder.path}/out.parquet")
    assert moments.are_over
    assert folder.names() == []
    cluster.start_datanode(1)
    result.write(folder.url("out.parquet"))
    assert is_whole(folder)


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
    # The namenode knows their blocks again when they have told it.
    until = time.monotonic() + 120
    while True:
        try:
            assert table.load(folder.url("few.csv")).rows == 1
            break
        except idmatch.SourceError:
            assert time.monotonic() < until
            time.sleep(0.5)
