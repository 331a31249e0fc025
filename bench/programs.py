"""The benchmark's own Rust programs, such as `bare` and `lookups`, members of the workspace."""

from __future__ import annotations

import functools
import json
import subprocess
import tomllib
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent


class CannotBuild(Exception):
    """Cargo is missing or failed; the text says which."""


@functools.cache
def program(name: str) -> str:
    """The path of a program's release build, which is made where it is missing or old."""
    command = [
        *("cargo", "build", "--quiet", "--release", "--locked", "--message-format", "json"),
        *("--package", f"bench-{name}"),
    ]
    try:
        done = subprocess.run(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True, check=True)
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        raise CannotBuild(f"bench-{name} cannot be built: {error}") from error
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    built = [message["executable"] for message in messages if message.get("executable")]
    return str(built[-1])


def driver_version() -> str:
    """The version of the Rust driver that they are built with."""
    packages = tomllib.loads((_ROOT / "Cargo.lock").read_text())["package"]
    versions: dict[str, str] = {package["name"]: package["version"] for package in packages}
    return versions["scylla"]
