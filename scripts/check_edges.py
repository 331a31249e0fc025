"""Checks which crates of this workspace depend on which: an edge that is not listed here fails."""

import json
import subprocess
import sys

ALLOWED = {
    "idmatch-model": set(),
    "idmatch-store": {"idmatch-model"},
    "idmatch-testkit": {"idmatch-model", "idmatch-store", "idmatch-join"},
    "idmatch-engine": {"idmatch-model", "idmatch-store"},
    "idmatch-cql": {"idmatch-model", "idmatch-store"},
    "idmatch-join": {"idmatch-model", "idmatch-store"},
    "idmatch-python": {
        "idmatch-model",
        "idmatch-store",
        "idmatch-engine",
        "idmatch-cql",
        "idmatch-join",
    },
}
# What only tests may use.
FOR_TESTS = {"idmatch-testkit"}
# Programs of the benchmark use what they like.
BENCH = "bench-"


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
        if name.startswith(BENCH):
            continue
        if name not in ALLOWED:
            wrong.append(f"{name} is not listed in {sys.argv[0]}")
            continue
        for dependency in package["dependencies"]:
            to = dependency["name"]
            allowed = ALLOWED[name] | (FOR_TESTS if dependency["kind"] == "dev" else set())
            if to in ours and to not in allowed:
                wrong.append(f"{name} must not depend on {to}")
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
