"""The benchmark's own Rust programs: `bare`, `cql`, `live` and `lookups`, members of the
workspace.
"""

from __future__ import annotations

import functools
import json
import subprocess
import tomllib
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent


class CannotBuild(Exception):
    """Cargo is missing or failed; the text says which."""


def program(name: str) -> str:
    """The path of a program's release build."""
    return _built()[f"bench-{name}"]


@functools.cache
def _built() -> dict[str, str]:
    """Builds all of them at once, so that they share one build of what they depend on."""
    command = [
        *("cargo", "build", "--quiet", "--release", "--locked", "--message-format", "json"),
        *("--package", "bench-*"),
    ]
    try:
        done = subprocess.run(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True, check=True)
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        raise CannotBuild(f"the programs of the benchmark cannot be built: {error}") from error
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    return {
        message["target"]["name"]: message["executable"]
        for message in messages
        if message.get("executable")
    }


def driver_version() -> str:
    """The version of the Rust driver that they are built with."""
    packages = tomllib.loads((_ROOT / "Cargo.lock").read_text())["package"]
    versions: dict[str, str] = {package["name"]: package["version"] for package in packages}
    return versions["scylla"]
