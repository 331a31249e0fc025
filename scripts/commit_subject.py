#!/usr/bin/env python3
"""Checks the subject of a commit message: `area: what it does`, at most 70 characters.

Git runs it as the hook `commit-msg`, with the file of the message; `make hooks` installs it.
"""

import re
import sys
from pathlib import Path

MAX_LENGTH = 70
_SUBJECT = re.compile(r"[a-z][a-z0-9_/, -]*: [a-z`].*[^.]")
# Messages that git writes itself.
_OF_GIT = ("Merge ", "Revert ", "fixup! ", "squash! ")


def fault(message: str) -> str | None:
    """What is wrong with the subject of a message; None for nothing."""
    lines = [line for line in message.splitlines() if not line.startswith("#")]
    subject = lines[0] if lines else ""
    if subject.startswith(_OF_GIT):
        return None
    if len(subject) > MAX_LENGTH:
        return f"has {len(subject)} characters; use at most {MAX_LENGTH}"
    if not _SUBJECT.fullmatch(subject):
        return "must be `area: what it does`, in lowercase and without a full stop"
    if len(lines) > 1 and lines[1]:
        return "must be followed by an empty line"
    return None


def main() -> int:
    """1 when the message is refused."""
    found = fault(Path(sys.argv[1]).read_text(encoding="utf-8"))
    if found:
        print(f"The commit's subject {found}.", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
