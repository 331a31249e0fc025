"""Runs the tests of one Cargo test target, and fails where a filter matches no test.

    python scripts/filtered_tests.py TARGET [--skip FILTER]... [--nocapture] [FILTER]

A filter is a part of a test's path, such as `kill::`. Cargo itself passes when no test matches.
"""

import argparse
import subprocess
import sys


def main() -> int:
    """The exit code of `cargo test`, or 1 for a filter without a test."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target")
    parser.add_argument("filter", nargs="?")
    parser.add_argument("--skip", action="append", default=[])
    parser.add_argument("--nocapture", action="store_true")
    parser.add_argument("--include-ignored", action="store_true")
    parser.add_argument("--test-threads", type=int)
    options = parser.parse_args()

    cargo = ["cargo", "test", "--quiet", "--locked", "--test", options.target]
    listed = subprocess.run([*cargo, "--", "--list"], check=True, capture_output=True, text=True)
    tests = [
        line.removesuffix(": test")
        for line in listed.stdout.splitlines()
        if line.endswith(": test")
    ]
    filters = [*options.skip, *([options.filter] if options.filter else [])]
    vain = [part for part in filters if not any(part in test for test in tests)]
    for part in vain:
        print(f"no test of {options.target} matches {part!r}", file=sys.stderr)
    if vain or not tests:
        return 1
    arguments = [part for skipped in options.skip for part in ("--skip", skipped)]
    arguments += ["--nocapture"] * options.nocapture
    arguments += ["--include-ignored"] * options.include_ignored
    arguments += [f"--test-threads={options.test_threads}"] * (options.test_threads is not None)
    arguments += [options.filter] if options.filter else []
    return subprocess.run([*cargo, "--", *arguments]).returncode


if __name__ == "__main__":
    sys.exit(main())
