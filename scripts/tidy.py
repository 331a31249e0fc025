"""Checks what no formatter does: short files, heads that say what they are for, visible imports."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

MAX_LINES = 400
FOLDERS = ("crates", "python", "tests", "scripts", "bench", "examples")
# A stub is as long as its module.
LONG = {".pyi"}
HEADS = {
    ".rs": re.compile(r"(#!\[.*\]\n)*//! "),
    ".py": re.compile(r'(#!.*\n)?"""'),
    ".pyi": re.compile(r'"""'),
}
# scripts/circles.py does not see what is imported by a name that is put together.
HIDDEN_IMPORT = re.compile(r"import_module\(\s*f\"|import_module\([^)\n]*__(package|name)__")


def main() -> int:
    """Prints every file that is not tidy; 1 when there is one."""
    gone = [folder for folder in FOLDERS if not Path(folder).is_dir()]
    if gone:
        print(f"there is no folder {', '.join(gone)}: run this at the project's root")
        return 1
    files = [
        file
        for folder in FOLDERS
        for file in sorted(Path(folder).rglob("*"))
        if file.suffix in HEADS
        and not any(part == "target" or part.startswith(".venv") for part in file.parts)
    ]
    wrong = [f"{file}: {fault}" for file in files for fault in _faults(file)]
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


def _faults(file: Path) -> Iterator[str]:
    text = file.read_text(encoding="utf-8")
    lines = text.count("\n")
    if lines > MAX_LINES and file.suffix not in LONG:
        yield f"{lines} lines; split it at {MAX_LINES}"
    if not HEADS[file.suffix].match(text):
        yield "its first line must say what it is for"
    if HIDDEN_IMPORT.search(text):
        yield "import_module hides what it imports; use an import"


if __name__ == "__main__":
    sys.exit(main())
