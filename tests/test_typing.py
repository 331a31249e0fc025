"""A user's program passes mypy --strict, and a wrong one does not."""

import subprocess
import sys
from pathlib import Path

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
"""

WRONG = """
import idmatch

table = idmatch.open("store").table("crm")
table.match("people.csv", how="outer")
table.match("people.csv", by="email")
table.latest_id("a").value
len(table.scan())
table.upsert_one("a", 1)
"""


def strict(tmp_path: Path, program: str) -> list[str]:
    """What mypy finds to be wrong in a program of a user."""
    (tmp_path / "program.py").write_text(program)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "program.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    return [line for line in ran.stdout.splitlines() if ": error:" in line]


def test_a_users_program_is_typed(tmp_path: Path) -> None:
    assert strict(tmp_path, RIGHT) == []
    assert len({line.split(":")[1] for line in strict(tmp_path, WRONG)}) == 5
