"""Checks which crates of this workspace depend on which: an edge that is not listed here fails."""

import json
import subprocess
import sys

ALLOWED = {
    "idmatch-model": set(),
    "idmatch-store": {"idmatch-model"},
    "idmatch-engine": {"idmatch-model", "idmatch-store"},
    "idmatch-cql": {"idmatch-model", "idmatch-store"},
    "idmatch-python": {"idmatch-model", "idmatch-store", "idmatch-engine", "idmatch-cql"},
}


def main() -> int:
    """Prints every edge that is not allowed; 1 when there is one."""
    metadata = json.loads(
        subprocess.run(
            ["cargo", "metadata", "--format-version=1", "--no-deps", "--locked"],
            check=True,
            capture_output=True,
        ).stdout
    )
    ours = {package["name"] for package in metadata["packages"]}
    wrong = []
    for package in metadata["packages"]:
        name = package["name"]
        # A crate may use itself in its tests, to turn on its own features.
        edges = {dependency["name"] for dependency in package["dependencies"]} & ours - {name}
        if name not in ALLOWED:
            wrong.append(f"{name} is not listed in {sys.argv[0]}")
        wrong += [f"{name} must not depend on {to}" for to in edges - ALLOWED.get(name, edges)]
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
