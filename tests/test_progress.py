"""Progress of long calls: bars on terminals and in notebooks, and nowhere else."""

import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace

import idmatch
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import SMALL, Cli
from idmatch import _core

COMMANDS = [
    (["load", "store", "small", "small.parquet"], "small: load, 5 of 5 rows"),
    (["load", "store", "small", "small.parquet", "--dry-run"], "small: read, 5 rows"),
    (["upsert", "store", "small", "small.parquet"], "small: upsert, 5 of 5 rows"),
    (
        ["erase", "store", "small", "people.parquet", "--columns", "id"],
        "small: erase, 3 of 3 rows",
    ),
    (["match", "store", "small", "people.parquet"], "small: match, 3 of 3 rows"),
    (
        ["match", "store", "small", "people.parquet", "-o", "out.parquet"],
        "small: write, 3 of 3 rows",
    ),
    (["export", "store", "small", "-o", "out.csv"], "small: write, 4 rows"),
    (["verify", "store"], "small: compare, 8 of 16 rows"),
    (["verify", "store", "--repair"], "small: compare, 8 of 16 rows"),
    (["compact", "store"], "small: compact, 16 of 16 rows"),
    (["copy", "store", "copied"], "small: copy, 4 rows"),
    (["backup", "store", "kept"], "store: back up, "),
    (["restore", "saved", "again"], "saved: verify, "),
]


@pytest.fixture
def twice(loaded: Cli) -> Cli:
    """A store whose table has two segments in each direction, of four rows, and a backup."""
    assert loaded("load", "store", "small", "small.parquet").code == 0
    assert loaded("backup", "store", "saved").code == 0
    return loaded


@pytest.mark.parametrize(("arguments", "shown"), COMMANDS)
def test_commands_show_bars_on_a_terminal(twice: Cli, arguments: list[str], shown: str) -> None:
    done = twice.on_terminal(*arguments, "--json")
    assert done.code == 0, done.err
    assert shown in done.err
    assert isinstance(done.json(), dict)


def test_the_log_is_above_the_bars(twice: Cli) -> None:
    done = twice.on_terminal("load", "store", "small", "small.parquet", "-vv", "--json")
    assert done.code == 0, done.err
    assert "\x1b[2K" in done.err
    logged = [line for line in done.err.splitlines() if " idmatch.engine: " in line]
    assert any("rows were committed" in line for line in logged)
    for line in logged:
        # Nothing of a bar is left in the line.
        kept = re.sub(r"\x1b\[\??[0-9;]*[a-zA-Z]", "", line.rpartition("\x1b[2K")[2])
        assert re.match(r"\r?\d{4}-\d\d-\d\dT", kept), line


@pytest.mark.parametrize(("arguments", "shown"), [COMMANDS[0], COMMANDS[4], COMMANDS[-4]])
def test_commands_show_none_elsewhere(twice: Cli, arguments: list[str], shown: str) -> None:
    done = twice(*arguments)
    assert done.code == 0, done.err
    assert shown not in done.err
    assert "\x1b" not in done.err


PROGRAM = """
import sys, idmatch
with idmatch.open("store", progress={"None": None, "True": True, "False": False}[sys.argv[1]]) as s:
    print(s.table("small").verify())
"""


@pytest.mark.parametrize(("progress", "is_shown"), [("None", False), ("True", True)])
def test_programs_show_bars_where_they_are_asked_for(
    twice: Cli, progress: str, is_shown: bool
) -> None:
    twice.program = PROGRAM
    done = twice.on_terminal(progress)
    assert (done.code, done.out) == (0, "[]\n")
    assert ("small: verify" in done.err) == is_shown
    done = twice(progress)
    assert (done.code, done.out, done.err) == (0, "[]\n", "")


class Notebook(ModuleType):
    """Stands for IPython in the kernel of a notebook: keeps what it is to display."""

    def __init__(self) -> None:
        super().__init__("IPython")
        self.drawn: list[tuple[str, str]] = []

    def get_ipython(self) -> object:
        return SimpleNamespace(kernel=object())

    def display(self, drawing: object, *, display_id: bool) -> object:
        assert display_id
        return SimpleNamespace(update=self.draw) if self.draw(drawing) else None

    def draw(self, drawing: object) -> bool:
        html = drawing._repr_html_()  # type: ignore[attr-defined]
        self.drawn.append((html, repr(drawing)))
        return True

    def texts(self) -> str:
        """All texts since the last time; the last drawing is empty, so the bars are gone."""
        *drawn, (html, last) = self.drawn
        self.drawn = []
        assert (html, last) == ("", "")
        return "\n".join(text for _, text in drawn)


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Notebook:
    made = Notebook()
    monkeypatch.setitem(sys.modules, "IPython", made)
    monkeypatch.setitem(sys.modules, "IPython.display", made)
    return made


def test_notebooks_show_bars(tmp_path: Path, notebook: Notebook) -> None:
    pq.write_table(SMALL, tmp_path / "rows.parquet")
    with idmatch.open(tmp_path / "store") as store:
        table = store.create_table("small")
        for _ in range(2):
            table.load(tmp_path / "rows.parquet")
            assert "small: load, 5 of 5 rows" in notebook.texts()
        with table.begin() as session:
            session.add(tmp_path / "rows.parquet")
            assert "small: load, 5 of 5 rows" in notebook.texts()
        assert "small: sort, " in notebook.texts()
        result = table.match(tmp_path / "rows.parquet", column="id")
        assert "small: match, 5 of 5 rows" in notebook.texts()
        result.write(tmp_path / "out.csv")
        assert "small: write, 8 of 8 rows" in notebook.texts()
        table.compact()
        html, text = notebook.drawn[0]
        drawn = re.fullmatch(r"small: compact, (\d+) of 24 rows, \d+ s", text)
        assert drawn
        assert html == f'<div><progress value="{drawn[1]}" max="24"></progress> {text}</div>'
        assert notebook.texts()
        assert table.verify() == []
        assert "small: verify, " in notebook.texts()
        store.backup(tmp_path / "saved")
        assert "store: back up, " in notebook.texts()
        with idmatch.open(tmp_path / "copied") as copied:
            table.copy_to(copied)
        assert "small: copy, " in notebook.texts()
    with idmatch.open(tmp_path / "store", progress=False) as store:
        assert store.table("small").verify() == []
        assert notebook.drawn == []


@contextmanager
def told(callable: object) -> Iterator[None]:
    former = _core.report_to(callable)  # type: ignore[arg-type]
    try:
        yield
    finally:
        assert _core.report_to(former) is callable


def test_the_calling_thread_is_told(table: idmatch.Table) -> None:
    found: list[tuple[str, int, str, int]] = []

    def note(stage: str, done: int, unit: str) -> None:
        found.append((stage, done, unit, threading.get_ident()))

    with told(note):
        table.verify()
        thread = threading.Thread(target=table.verify)
        thread.start()
        thread.join()
    table.verify()
    assert {ident for *_, ident in found} == {threading.get_ident()}
    # Four rows in each direction.
    assert sum(done for stage, done, _, _ in found if stage == "compare") == 8
    assert {(stage, unit) for stage, _, unit, _ in found} == {
        ("verify", "bytes"),
        ("compare", "rows"),
    }


def test_an_exception_ends_the_call(table: idmatch.Table) -> None:
    def refuse(stage: str, done: int, unit: str) -> None:
        raise ZeroDivisionError(stage)

    with told(refuse), pytest.raises(ZeroDivisionError):
        table.load(pa.table({"id": ["d"], "partner_id": ["d"], "seen_at": ["2026-01-01"]}))
    assert table.partner_ids("d").num_rows == 0
    assert table.verify() == []
