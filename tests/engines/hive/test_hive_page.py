"""The page about Hive is true: its Python and its commands run, in their order."""

import os
import re
import subprocess
import sys
from pathlib import Path

from hive_server import Database

pytest_plugins = ["hive_server"]

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "hive.md"
_BLOCK = re.compile(r"^```(python|bash) no-run: needs Hive\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_page_runs(database: Database, tmp_path: Path) -> None:
    database.run(
        "CREATE TABLE seen (cookie STRING, uid STRING, seen TIMESTAMP) STORED AS PARQUET",
        "INSERT INTO seen VALUES ('c1', 'u1', TIMESTAMP '2026-11-20 10:30:00'),"
        " ('c2', 'u2', TIMESTAMP '2026-11-20 10:30:00')",
        "CREATE TABLE donors (cookie STRING, city STRING, amount INT) STORED AS ORC",
        "INSERT INTO donors VALUES ('c1', 'Rome', 1), ('c1', 'Rome', 2), ('c3', 'Oslo', 3)",
    )
    page = PAGE.read_text(encoding="utf-8")
    database.run(*re.findall(r"^```sql\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    found = _BLOCK.findall(page)
    assert [language for language, _ in found] == ["python", "bash"]
    command = tmp_path / "bin" / "idmatch"
    command.parent.mkdir()
    command.write_text(f"#!{sys.executable}\nfrom idmatch._cli import run\nrun()\n")
    command.chmod(0o755)
    printed = ""
    for language, block in found:
        program = [sys.executable, "-c"] if language == "python" else ["bash", "-ec"]
        ran = subprocess.run(
            [*program, block],
            cwd=tmp_path,
            env=os.environ
            | {"PATH": f"{command.parent}:{os.environ['PATH']}", "HIVE": database.url()},
            capture_output=True,
            text=True,
        )
        assert ran.returncode == 0, ran.stderr
        printed += ran.stdout
    assert "format='parquet'" in printed
    rows = database.ask("SELECT id, partner_id, city, CAST(day AS STRING) FROM found")
    assert rows == [("c1", "u1", "Rome", f"2026-11-{day}") for day in (27, 28)]
