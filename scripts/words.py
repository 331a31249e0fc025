"""Checks that each Rust type has a name of its own, and that nothing has a private word for a name.

scripts/words.txt has these words: no definition and no file may be named by one alone.
"""

import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

WORDS = Path("scripts/words.txt")
# In crates/python the classes of Python, which wrap the types of these names.
WRAPPERS = {"Match", "Snapshot", "Store", "Table"}
_RUST = re.compile(
    r"^\s*(?:pub(?:\([^)]*\))? )?(?:const |async |unsafe )*"
    r"(?:fn|struct|enum|trait|mod|type|const|static) (\w+)",
    re.MULTILINE,
)
_TYPE = re.compile(
    r"^\s*(?:pub(?:\([^)]*\))? )?(?:unsafe )?(?:struct|enum|trait|union) (\w+)"
    r"|^(?:pub(?:\([^)]*\))? )?type (\w+)",
    re.MULTILINE,
)
_PYTHON = re.compile(r"^\s*(?:async )?(?:def|class) (\w+)|^(\w+)(?:: [^=\n]+)? = ", re.MULTILINE)


def definitions(file: Path) -> Iterator[str]:
    """The names that a file defines, and its own."""
    yield file.stem
    pattern = _RUST if file.suffix == ".rs" else _PYTHON
    for found in pattern.finditer(file.read_text(encoding="utf-8")):
        yield next(filter(None, found.groups()))


def repeated_types() -> Iterator[str]:
    """The names of Rust types that several definitions have."""
    files_of = defaultdict[str, list[Path]](list)
    for file in sorted(Path("crates").glob("*/src/**/*.rs")):
        for found in _TYPE.finditer(file.read_text(encoding="utf-8")):
            name = next(filter(None, found.groups()))
            if name not in WRAPPERS or file.parts[1] != "python":
                files_of[name].append(file)
    for name, files in files_of.items():
        if len(files) > 1:
            yield f"{files[-1]}: the type {name} is defined elsewhere too: {files[0]}"


def main() -> int:
    """Prints each name that breaks a rule; 1 when there is one."""
    wrong = list(repeated_types())
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
