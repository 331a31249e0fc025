"""Fills templates, and puts each result between the markers of its part of a page."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jinja2 import ChainableUndefined, Environment, FileSystemLoader
from units import show_bytes, show_count, show_seconds

_TEMPLATES = Path(__file__).parent / "templates"


def fill(template: str, **values: Any) -> str:
    """The text of a template; sections without figures are left out by the template itself."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=ChainableUndefined,
        autoescape=False,
    )
    environment.filters |= {"rows": show_count, "size": show_bytes, "time": show_seconds}
    environment.globals["table_head"] = table_head
    text = environment.get_template(template).render(**values)
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def put(page: Path, part: str, text: str) -> None:
    """Replaces a part of the page; one that it does not have yet goes to its end."""
    begin, end = f"<!-- begin {part} -->", f"<!-- end {part} -->"
    new = f"{begin}\n\n{text}\n\n{end}"
    old = page.read_text() if page.exists() else ""
    before, found, rest = old.partition(begin)
    if found:
        page.write_text(before + new + rest.partition(end)[2])
    else:
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(f"{old.rstrip()}\n\n{new}\n".lstrip())


def table_head(names: Iterable[str]) -> str:
    """The first two lines of a Markdown table; the first column is text, the others are figures."""
    listed = list(names)
    return f"| {' | '.join(listed)} |\n|---{'|--:' * (len(listed) - 1)}|"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    return "\n".join([table_head(head), *(f"| {' | '.join(row)} |" for row in rows)])
