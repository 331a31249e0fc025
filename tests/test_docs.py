"""The documents are true: their code runs, their links lead somewhere, their reference is whole.

Each fenced block of shell or Python is run, in the order of its page, unless its first line gives
a reason, as in ```bash no-run: needs three servers```. The blocks of a page share a directory and,
those of Python, their names. Nothing here asks the network.
"""

import argparse
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import idmatch
import pytest
from idmatch._cli import _commands
from idmatch._cli._parser import parser

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
KINDS = ("tutorial", "how-to", "reference", "explanation", "benchmarks")
OF_NO_KIND = ("README.md", "glossary.md")
FOLDERS = (
    "bench",
    "crates",
    "docs",
    "examples",
    "fuzz",
    "monitoring",
    "python",
    "scripts",
    "spec",
    "tests",
)

BESIDE_CODE = (
    "bench/README.md",
    "bench/live_peers/README.md",
    "examples/README.md",
    "monitoring/README.md",
)
RUN = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/**/*.md", *BESIDE_CODE)
READ = (*RUN, "ARCHITECTURE.md", "CHANGELOG.md", "spec/**/*.md")

_FENCE = re.compile(r"^(`{3,})([^\n`]*)\n(.*?)^\1[ ]*$", re.MULTILINE | re.DOTALL)
_SHELL, _PYTHON = ("bash", "sh"), ("python",)
_NO_RUN = re.compile(r"no-run: \w.*\w")
_LINK = re.compile(r"\]\(([^()\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.*?) *$", re.MULTILINE)
_CODE = re.compile(r"`([^`\n]+)`")
_OPTION = re.compile(r"`(--?[a-z][a-z-]*)")


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    info: str
    code: str


def pages(patterns: tuple[str, ...]) -> list[Path]:
    """The pages of some patterns, of which each has to match one."""
    found = {pattern: sorted(ROOT.glob(pattern)) for pattern in patterns}
    missing = [pattern for pattern, matches in found.items() if not matches]
    assert not missing, f"no page matches {missing}"
    return [page for matches in found.values() for page in matches]


def name_of(page: Path) -> str:
    """The page as it is named in the results of tests."""
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    found = []
    for _, first_line, code in _FENCE.findall(page.read_text(encoding="utf-8")):
        language, _, info = first_line.strip().partition(" ")
        found.append(Block(language, info, code))
    return found


def prose(page: Path) -> str:
    """The page without its fenced blocks."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", pages(RUN), ids=name_of)
def test_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    commands = Path(sys.executable).parent
    monkeypatch.setenv("PATH", f"{commands}{os.pathsep}{os.environ['PATH']}")
    names: dict[str, Any] = {}
    for block in blocks(page):
        assert block.language, f"a block without a language; use text for output:\n{block.code}"
        if block.language not in _SHELL + _PYTHON or block.info.startswith("no-run:"):
            assert not block.info or _NO_RUN.fullmatch(block.info), f"no reason: {block.info!r}"
            continue
        assert not block.info, f"use `no-run: REASON` or nothing, not {block.info!r}"
        if block.language in _PYTHON:
            exec(compile(block.code, str(page), "exec"), names)
        else:
            shell = ["bash", "-euo", "pipefail", "-c", block.code]
            ran = subprocess.run(shell, capture_output=True)
            assert ran.returncode == 0, f"{block.code}\n{ran.stderr.decode()}"


@pytest.mark.parametrize("program", pages(("examples/*.py",)), ids=name_of)
def test_examples_run(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("IDMATCH_EXAMPLE_CQL", raising=False)
    ran = subprocess.run(
        [sys.executable, program, "--small"], cwd=tmp_path, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout


def anchors(page: Path) -> set[str]:
    """What a link may have after `#`, as GitHub makes it of headings."""
    seen: Counter[str] = Counter()
    found = set()
    for heading in _HEADING.findall(prose(page)):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


@pytest.mark.parametrize("page", pages(READ), ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    wrong = []
    for link in _LINK.findall(prose(page)):
        if "://" in link or link.startswith("mailto:"):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            wrong.append(link)
    assert wrong == []


@pytest.mark.parametrize("page", pages(READ), ids=name_of)
def test_paths_exist(page: Path) -> None:
    named = {text.split("::")[0] for text in _CODE.findall(prose(page)) if " " not in text}
    paths = {text for text in named if text.startswith(tuple(f"{name}/" for name in FOLDERS))}
    places = (ROOT, page.parent)
    missing = {path for path in paths if not any(any(at.glob(path.rstrip("/"))) for at in places)}
    assert missing == set()


def test_every_page_is_of_a_kind() -> None:
    folders = {page: page.relative_to(DOCS).parts for page in pages(("docs/**/*.md",))}
    lost = [name_of(page) for page, parts in folders.items() if parts[0] not in KINDS + OF_NO_KIND]
    assert lost == []
    assert all((DOCS / kind).is_dir() for kind in KINDS)


def section(page: Path, heading: str) -> str:
    """What stands under a heading, up to the next one of its level or above."""
    text = page.read_text(encoding="utf-8")
    found = re.search(rf"^(#+) {re.escape(heading)}$\n(.*?)(?=^#{{1,2}} |\Z)", text, re.M | re.S)
    assert found, f"{name_of(page)} has no heading {heading!r}"
    return found[2]


def subcommands(of: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The commands of a parser."""
    found: dict[str, argparse.ArgumentParser] = {}
    for action in of._actions:
        if isinstance(action, argparse._SubParsersAction):
            found.update(action.choices)
    return found


def options(of: argparse.ArgumentParser) -> Iterator[str]:
    """The options of a command and of those below it."""
    for action in of._actions:
        yield from action.option_strings
    for below in subcommands(of).values():
        yield from options(below)


def test_commands_are_in_the_reference() -> None:
    page = REFERENCE / "commands.md"
    # The last one is of all that write.
    everywhere = {"-h", "--help", "--json", "-v", "--verbose", "--log-format", "--wait"}
    for name, command in subcommands(parser(_commands.COMMANDS)).items():
        text = section(page, f"idmatch {name}")
        assert set(_OPTION.findall(text)) - everywhere == set(options(command)) - everywhere, name
        assert [action for action in subcommands(command) if f"`{action}" not in text] == []
    assert everywhere <= set(_OPTION.findall(section(page, "Common options")))


def test_address_options_are_in_the_reference() -> None:
    with pytest.raises(idmatch.InvalidArgument, match="there are") as raised:
        idmatch.open("cql://127.0.0.1/keyspace?no_such_option=1")
    names = re.split("[;.]", str(raised.value).partition("there are ")[2])[0].split(", ")
    assert "datacenter" in names
    text = section(REFERENCE / "cql-addresses.md", "Options")
    assert re.findall(r"^\| `(\w+)`", text, re.MULTILINE) == names


def test_python_names_are_in_the_reference() -> None:
    page = (REFERENCE / "python.md").read_text(encoding="utf-8")
    missing = [name for name in idmatch.__all__ if f"`{name}" not in page.replace("idmatch.", "")]
    for kind in (idmatch.Store, idmatch.Table, idmatch.Snapshot, idmatch.MatchResult):
        names = [name for name in dir(kind) if not name.startswith("_")]
        missing += [name for name in names if not re.search(rf"`(\w+\.)?{name}\b", page)]
    assert missing == []


def test_error_kinds_are_in_the_reference() -> None:
    text = section(REFERENCE / "errors.md", "Kinds of errors")
    kinds = [kind for kind in vars(idmatch).values() if _is_error(kind)]
    assert len(kinds) > 10
    wrong = [kind for kind in kinds if f"| `{kind.__name__}` | `{kind.code}` |" not in text]
    assert wrong == []


def _is_error(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, idmatch.Error) and kind is not idmatch.Error


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="argparse of other versions differs")
def test_made_pages_are_what_the_code_says() -> None:
    """Pages that scripts/reference.py writes."""
    command = [sys.executable, str(ROOT / "scripts" / "reference.py"), "--check"]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert (ran.stdout + ran.stderr, ran.returncode) == ("", 0)
