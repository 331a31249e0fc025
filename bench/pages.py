"""A page of which each part is made from other results; replacing one leaves the others as they are."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def put(page: Path, part: str, text: str) -> None:
    """Replaces a part of the page; one that it does not have yet goes to its end."""
    begin, end = f"<!-- begin {part} -->", f"<!-- end {part} -->"
    new = f"{begin}\n\n{text.strip()}\n\n{end}"
    old = page.read_text() if page.exists() else ""
    before, found, rest = old.partition(begin)
    if found:
        after = rest.partition(end)[2]
        page.write_text(before + new + after)
    else:
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(f"{old.rstrip()}\n\n{new}\n".lstrip())


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table; the first column is text, the others are figures."""
    names = list(head)
    lines = ["| " + " | ".join(names) + " |", "|---" + "|--:" * (len(names) - 1) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])
