"""The commands in the README and the documents work, in the order in which they stand.

A fenced block is run when its first line says so: ```bash run``` or ```python run```. The
blocks of one page share a directory and, those of Python, their names.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [*ROOT.glob("README.md"), *sorted((ROOT / "docs").glob("*.md"))]
_BLOCK = re.compile(r"^```(bash|python) run\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    commands = Path(sys.executable).parent
    monkeypatch.setenv("PATH", f"{commands}{os.pathsep}{os.environ['PATH']}")
    names: dict[str, Any] = {}
    for language, code in _BLOCK.findall(page.read_text(encoding="utf-8")):
        if language == "python":
            exec(compile(code, str(page), "exec"), names)
        else:
            ran = subprocess.run(["bash", "-euo", "pipefail", "-c", code], capture_output=True)
            assert ran.returncode == 0, f"{code}\n{ran.stderr.decode()}"


def test_every_command_is_documented() -> None:
    from idmatch._cli._commands import COMMANDS

    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    if text:
        assert [name for name in COMMANDS if f"idmatch {name}" not in text] == []
