"""Runs the blocks of a page that need a server, in their order."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

HOW_TO = Path(__file__).parents[1] / "docs" / "how-to"


def run_blocks(
    page: str,
    needs: str,
    languages: list[str],
    folder: Path,
    variables: Mapping[str, str] | None = None,
) -> str:
    """Runs the blocks of a how-to that say `no-run: needs NEEDS`, and returns what they print.

    They run in `folder`. It fails where their languages are not these.
    """
    block = re.compile(rf"^```(python|bash) no-run: needs {needs}\n(.*?)^```$", re.M | re.S)
    found = block.findall((HOW_TO / page).read_text(encoding="utf-8"))
    assert [language for language, _ in found] == languages
    command = folder / "bin" / "idmatch"
    command.parent.mkdir()
    command.write_text(f"#!{sys.executable}\nfrom idmatch._cli import run\nrun()\n")
    command.chmod(0o755)
    path = {"PATH": f"{command.parent}:{os.environ['PATH']}"}
    printed = ""
    for language, code in found:
        program = [sys.executable, "-c"] if language == "python" else ["bash", "-ec"]
        ran = subprocess.run(
            [*program, code],
            cwd=folder,
            env=os.environ | path | dict(variables or {}),
            capture_output=True,
            text=True,
        )
        assert ran.returncode == 0, ran.stderr
        printed += ran.stdout
    return printed
