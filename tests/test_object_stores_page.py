"""The page about object stores is true: its commands and its Python run, in their order."""

import io
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import idmatch
import pyarrow as pa
import pyarrow.parquet as pq
from conftest import SMALL
from s3 import S3

pytest_plugins = ["s3_fixtures"]

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "write-to-object-stores.md"
_BLOCK = re.compile(
    r"^```(python|bash) no-run: needs a bucket\n(.*?)^```$", re.MULTILINE | re.DOTALL
)


def test_the_page_runs(s3: S3, tmp_path: Path) -> None:
    found = _BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert [language for language, _ in found] == ["bash", "python", "bash"]
    with idmatch.open(tmp_path / "store") as store:
        store.create_table("crm").load(SMALL)
    (tmp_path / "people").mkdir()
    people = pa.table({"id": ["a", "b", "nobody"]})
    pq.write_table(people, tmp_path / "people" / "donors.parquet")
    command = tmp_path / "bin" / "idmatch"
    command.parent.mkdir()
    command.write_text(f"#!{sys.executable}\nfrom idmatch._cli import run\nrun()\n")
    command.chmod(0o755)
    for language, block in found:
        program = [sys.executable, "-c"] if language == "python" else ["bash", "-ec"]
        ran = subprocess.run(
            [*program, block],
            cwd=tmp_path,
            env=os.environ | {"PATH": f"{command.parent}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
        )
        assert ran.returncode == 0, ran.stderr
    assert s3.keys() == ["2026-11/cookies.parquet", "crm.csv.gz"]
    matched = pq.read_table(io.BytesIO(s3.get("2026-11/cookies.parquet")))
    assert Counter(matched["id"].to_pylist()) == {"a": 2, "b": 1}
    with idmatch.open(tmp_path / "store") as store, idmatch.open(tmp_path / "copy") as copy:
        whole, copied = (one.table("crm").scan().to_arrow() for one in (store, copy))
    assert Counter(map(str, copied.to_pylist())) == Counter(map(str, whole.to_pylist()))
