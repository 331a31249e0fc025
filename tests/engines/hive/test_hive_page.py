"""The page about Hive is true: its Python and its commands run, in their order."""

import re
from pathlib import Path

from hive_server import Database
from page_blocks import HOW_TO, run_blocks

pytest_plugins = ["hive_server"]


def test_the_page_runs(database: Database, tmp_path: Path) -> None:
    database.run(
        "CREATE TABLE seen (cookie STRING, uid STRING, seen TIMESTAMP) STORED AS PARQUET",
        "INSERT INTO seen VALUES ('c1', 'u1', TIMESTAMP '2026-11-20 10:30:00'),"
        " ('c2', 'u2', TIMESTAMP '2026-11-20 10:30:00')",
        "CREATE TABLE donors (cookie STRING, city STRING, amount INT) STORED AS ORC",
        "INSERT INTO donors VALUES ('c1', 'Rome', 1), ('c1', 'Rome', 2), ('c3', 'Oslo', 3)",
    )
    page = (HOW_TO / "hive.md").read_text(encoding="utf-8")
    database.run(*re.findall(r"^```sql\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    variables = {"HIVE": database.url()}
    printed = run_blocks("hive.md", "Hive", ["python", "bash"], tmp_path, variables)
    assert "format='parquet'" in printed
    rows = database.ask("SELECT id, partner_id, city, CAST(day AS STRING) FROM found")
    assert rows == [("c1", "u1", "Rome", f"2026-11-{day}") for day in (27, 28)]
