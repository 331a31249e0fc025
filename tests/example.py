"""Runs the scripts of examples/ with the command under test."""

import os
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"


def run_example(name: str, store: str, home: Path) -> None:
    """Runs a script on a store, in a directory; it must succeed."""
    bin_folder = home / "bin"
    bin_folder.mkdir()
    command = bin_folder / "idmatch"
    program = "from idmatch._cli import run; run()"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{program}" "$@"\n')
    command.chmod(0o755)
    environment = os.environ | {
        "PATH": f"{bin_folder}:{os.environ['PATH']}",
        "XDG_STATE_HOME": str(home / "state"),
    }
    script = ["bash", str(EXAMPLES / name), store]
    ran = subprocess.run(script, cwd=home, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def store_at(store: str, home: Path) -> str:
    """The store, from anywhere."""
    return store if "://" in store else str(home / store)
