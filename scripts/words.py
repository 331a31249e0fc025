"""Checks that no definition and no file is named by a private word of scripts/words.txt alone."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

WORDS = Path("scripts/words.txt")
_RUST = re.compile(
    r"^\s*(?:pub(?:\([^)]*\))? )?(?:const |async |unsafe )*"
    r"(?:fn|struct|enum|trait|mod|type|const|static) (\w+)",
    re.MULTILINE,
)
_PYTHON = re.compile(r"^\s*(?:async )?(?:def|class) (\w+)|^(\w+)(?:: [^=\n]+)? = ", re.MULTILINE)


def definitions(file: Path) -> Iterator[str]:
    """The names that a file defines, and its own."""
    yield file.stem
    pattern = _RUST if file.suffix == ".rs" else _PYTHON
    for found in pattern.finditer(file.read_text(encoding="utf-8")):
        yield next(filter(None, found.groups()))


def main() -> int:
    """Prints each name that is such a word; 1 when there is one."""
    wrong = []
    for line in WORDS.read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        folder, _, words = line.partition(": ")
        banned = {word.replace("_", "") for word in words.split()}
        if not Path(folder).is_dir():
            wrong.append(f"there is no folder {folder}: run this at the project's root")
        for file in sorted(Path(folder).rglob("*")):
            if file.suffix not in (".rs", ".py") or ".venv" in str(file):
                continue
            names = {name for name in definitions(file) if name.lower().replace("_", "") in banned}
            wrong += [f"{file}: {name} is a private word; see docs/glossary.md" for name in names]
    print("\n".join(sorted(wrong)), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
