"""The notebook runs from load to plot, and its figures are those of SQL over its files."""

import json
import os
import sys
from pathlib import Path

import duckdb
import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parent.parent / "examples" / "overlap.ipynb"
TELL = """
import json
with open("figures.json", "w") as file:
    json.dump({"rates": rates.to_dict(), "overlap": overlap}, file)
"""


def test_the_notebook_shows_what_sql_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rates by campaign, and the overlap of partners."""
    book = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    assert all(not cell.get("outputs") for cell in book.cells), "it is kept without outputs"
    tell = nbformat.v4.new_code_cell(TELL)  # type: ignore[no-untyped-call]
    book.cells.append(tell)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    NotebookClient(book, timeout=60, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in book.cells for output in cell.get("outputs", [])]
    data = [output["data"] for output in outputs if "data" in output]
    assert any("image/png" in shown for shown in data)
    assert any("<table>" in shown.get("text/html", "") for shown in data)
    figures = json.loads((tmp_path / "figures.json").read_text())
    with duckdb.connect() as sql:
        sql.execute(f"set file_search_path = '{tmp_path}'")
        rates = sql.execute("""
            select campaign, avg((email in (select email from 'people/crm.parquet'))::int)
            from 'population.parquet' group by all
        """).fetchall()
        overlap = sql.execute("""
            with known as (
                select distinct email,
                    email in (select email from 'people/crm.parquet' c
                        join 'people/partner1.parquet' p on p.cookie = c.cookie) as first,
                    email in (select email from 'people/crm.parquet' c
                        join 'people/partner2.parquet' p on p.cookie = c.cookie) as second
                from 'population.parquet'
            )
            select count(*) filter (first and not second), count(*) filter (first and second),
                count(*) filter (second and not first)
            from known
        """).fetchone()
    assert figures["rates"] == pytest.approx(dict(rates))
    assert tuple(figures["overlap"].values()) == overlap
    assert min(figures["overlap"].values()) > 0
