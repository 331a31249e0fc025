"""A user's program passes mypy --strict and pyright's strict mode, and a wrong one does not."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

RIGHT = """
import datetime as dt
import pyarrow as pa
import idmatch


def report(place: str) -> dict[str, float]:
    with idmatch.open(place, read_only=True, create=False) as store:
        table: idmatch.Table = store.table("crm")
        result = table.match(
            pa.table({"email": ["a"]}), carry=["email as address"], how="left", then=["dsp,by=id"]
        )
        result.write("out.csv.gz", overwrite=True)
        lost: idmatch.CountedRows = result.unmatched()
        everything: pa.Table = table.scan(since=dt.date(2026, 1, 1)).to_arrow()
        latest = table.latest_partner_id("a")
        seen: dt.datetime | None = latest.seen_at if latest else None
        assert seen is None or seen.tzinfo
        return {"rate": result.rate, "lost": len(lost), "rows": everything.num_rows}


def upsert(table: idmatch.Table, pairs: list[tuple[str, str]]) -> None:
    for id, partner_id in pairs:
        table.upsert_one(id, partner_id, dt.datetime.now(dt.UTC))
    with table.begin(key="monday") as session:
        now = dt.datetime.now(dt.UTC)
        session.add(pa.table({"id": ["a"], "partner_id": ["b"], "seen_at": [now]}))


def use(result: idmatch.MatchResult) -> dict[str, float]:
    result.show(3)
    result.write("cut", format="csv.gz", partition_by="campaign", max_rows_per_file=1_000)
    frames: int = len(result.to_pandas()) + result.to_polars().height
    timings: idmatch.Timings = result.timings
    requests: idmatch.Requests | None = result.requests
    lost: int = sum(hop.rows_in - hop.matched for hop in result.hops)
    asked: int = requests.asked if requests else 0
    return {"frames": frames, "writing": timings.writing, "asked": asked, "lost": lost}


def freeze(store: idmatch.Store) -> list[str]:
    with store.snapshot() as now:
        frozen: idmatch.TableSnapshot = now.table("crm")
        rows: idmatch.Rows = frozen.scan(until="2026-01-01")
        rows.write("days", partition_by="seen_at")
        return now.tables()
"""

WRONG = """
import idmatch

table = idmatch.open("store").table("crm")
table.match("people.csv", how="outer")
table.match("people.csv", by="email")
table.latest_id("a").value
len(table.scan())
table.upsert_one("a", 1)
table.match("people.csv").requests.asked
table.scan().write("cut", max_rows_per_file="many")
table.scan().hops
"""


# Pandas and polars are typed, and as large as everything else together.
MYPY = """
[mypy]
strict = True
incremental = False

[mypy-IPython.*,matplotlib.*,pandas.*,polars.*]
follow_imports = skip
ignore_missing_imports = True
"""

Lines = dict[str, set[int]]


def mypy(folder: Path, *programs: str) -> Lines:
    """The lines of each program in which mypy finds something wrong."""
    (folder / "mypy.ini").write_text(MYPY)
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", *programs]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    found = Lines()
    for line in ran.stdout.splitlines():
        if ": error:" in line:
            program, number, _ = line.split(":", 2)
            found.setdefault(program, set()).add(int(number))
    return found


def pyright(folder: Path, *programs: str) -> Lines:
    """The same of pyright, whose fork comes with its Node.js."""
    (folder / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    command = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable]
    ran = subprocess.run(
        [*command, "--outputjson", *programs], cwd=folder, capture_output=True, text=True
    )
    found = Lines()
    for one in json.loads(ran.stdout)["generalDiagnostics"]:
        line = int(one["range"]["start"]["line"]) + 1
        found.setdefault(Path(one["file"]).name, set()).add(line)
    return found


@pytest.mark.parametrize("check", [mypy, pyright])
def test_a_users_program_is_typed(check: Callable[..., Lines], tmp_path: Path) -> None:
    (tmp_path / "right.py").write_text(RIGHT)
    (tmp_path / "wrong.py").write_text(WRONG)
    found = check(tmp_path, "right.py", "wrong.py")
    assert found == {"wrong.py": {5, 6, 7, 8, 9, 10, 11, 12}}
