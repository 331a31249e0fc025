"""The benchmark's own Rust programs, such as `bare` and `lookups`, members of the workspace."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import tomllib
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent


class CannotBuild(Exception):
    """Cargo is missing or failed; the text says which."""


@functools.cache
def program(name: str, *features: str) -> str:
    """The path of a program's release build, which is made where it is missing or old."""
    command = [
        *("cargo", "build", "--quiet", "--release", "--locked", "--message-format", "json"),
        *("--package", f"bench-{name}", "--features", ",".join(features)),
    ]
    try:
        done = subprocess.run(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True, check=True)
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        raise CannotBuild(f"bench-{name} cannot be built: {error}") from error
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    built = [message["executable"] for message in messages if message.get("executable")]
    # Another set of features would be built in its place.
    kept = _ROOT / "target" / "bench" / "-".join((name, *features))
    kept.parent.mkdir(parents=True, exist_ok=True)
    return str(shutil.copy2(built[-1], kept))


def driver_version() -> str:
    """The version of the Rust driver that they are built with."""
    packages = tomllib.loads((_ROOT / "Cargo.lock").read_text())["package"]
    versions: dict[str, str] = {package["name"]: package["version"] for package in packages}
    return versions["scylla"]
