"""The page about object stores is true: its commands and its Python run, in their order."""

import io
from collections import Counter
from pathlib import Path

import idmatch
import pyarrow as pa
import pyarrow.parquet as pq
from conftest import SMALL
from page_blocks import run_blocks
from s3 import S3

pytest_plugins = ["s3_fixtures"]


def test_the_page_runs(s3: S3, tmp_path: Path) -> None:
    with idmatch.open(tmp_path / "store") as store:
        store.create_table("crm").load(SMALL)
    (tmp_path / "people").mkdir()
    people = pa.table({"id": ["a", "b", "nobody"]})
    pq.write_table(people, tmp_path / "people" / "donors.parquet")
    page = "write-to-object-stores.md"
    run_blocks(page, "a bucket", ["bash", "python", "bash"], tmp_path)
    assert s3.keys() == ["2026-11/cookies.parquet", "crm.csv.gz"]
    matched = pq.read_table(io.BytesIO(s3.get("2026-11/cookies.parquet")))
    assert Counter(matched["id"].to_pylist()) == {"a": 2, "b": 1}
    with idmatch.open(tmp_path / "store") as store, idmatch.open(tmp_path / "copy") as copy:
        whole, copied = (one.table("crm").scan().to_arrow() for one in (store, copy))
    assert Counter(map(str, copied.to_pylist())) == Counter(map(str, whole.to_pylist()))
