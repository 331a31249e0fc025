"""Builds of two commits, each in a git worktree and a virtual environment of its own.

Knows nothing of what is measured. Both builds share one target folder, so that dependencies compile
once; a workspace's own crates differ by their paths. Dependencies of Python are those of
`requirements.txt`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import venv
from dataclasses import dataclass
from pathlib import Path

from units import show_seconds

_HERE = Path(__file__).parent
_BUILT = "built"
# Those of the package with all its extras; a commit without an extra ignores its name.
_PACKAGE = ".[lab,sample]"


@dataclass(frozen=True)
class Build:
    """A commit, and the interpreter that has it installed."""

    revision: str
    commit: str
    python: Path


class Builds:
    """Makes builds below a folder, and removes them at the end of the `with` block unless they are
    kept.
    """

    def __init__(self, folder: Path, keep: bool) -> None:
        self._folder = folder
        self._keep = keep

    def __enter__(self) -> Builds:
        self._folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        if self._keep:
            return
        for tree in self._folder.glob("*/tree"):
            _git("worktree", "remove", "--force", str(tree), check=False)
        shutil.rmtree(self._folder, ignore_errors=True)

    def build(self, revision: str) -> Build:
        """The release build of a commit; one that was kept is taken as it is."""
        commit = _git("rev-parse", "--verify", f"{revision}^{{commit}}")
        home = self._folder / commit[:12]
        build = Build(revision, commit, home / "venv" / "bin" / "python")
        if (home / _BUILT).exists():
            return build
        began = time.perf_counter()
        shutil.rmtree(home, ignore_errors=True)
        _git("worktree", "add", "--force", "--detach", str(home / "tree"), commit)
        venv.create(home / "venv", with_pip=True)
        pip = [str(build.python), "-m", "pip", "install", "--quiet", "--constraint", self._pinned()]
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("PYO3_")
        }
        environment |= {
            "CARGO_TARGET_DIR": str(self._folder / "target"),
            "MATURIN_PEP517_ARGS": "--locked",
        }
        subprocess.run([*pip, _PACKAGE], cwd=home / "tree", env=environment, check=True)
        (home / _BUILT).touch()
        took = show_seconds(time.perf_counter() - began)
        print(f"{revision} ({commit[:12]}): built in {took}", file=sys.stderr, flush=True)
        return build

    def _pinned(self) -> str:
        """A file of the versions that the benchmark pins; pip takes no extras there."""
        file = self._folder / "constraints.txt"
        lines = (_HERE / "requirements.txt").read_text().splitlines()
        file.write_text("\n".join(line for line in lines if "[" not in line) + "\n")
        return str(file)


def has_changes() -> bool:
    """Whether this checkout has changes that no commit has."""
    return bool(_git("status", "--porcelain"))


def _git(*arguments: str, check: bool = True) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=_HERE, check=check, text=True, stdout=subprocess.PIPE
    )
    return done.stdout.strip()
