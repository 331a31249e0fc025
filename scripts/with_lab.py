"""Runs a command beside a Cassandra cluster of its own, which ends with it.

    python scripts/with_lab.py [--nodes 1] [--network 127.73.20] [--heap 1Gi]
        [--meanwhile "cargo build ..."] -- cargo test ...

The command finds the contact points in IDMATCH_TEST_CQL, such as "127.73.20.1". A command that is
to run --meanwhile starts with the nodes; when both are done, and it succeeded, the main command
starts.
"""

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from idmatch._core import parse_size
from idmatch._lab import Lab

# Tests make hundreds of tables, which need not survive the machine. No node lives long enough for
# Java's slow compiler to pay: without it the tests take half of the node's processor time.
FOR_TESTS = ("-Dcassandra.unsafesystem=true", "-XX:TieredStopAtLevel=1")


def main() -> int:
    """The exit code is the command's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--network", default="127.73.20")
    parser.add_argument("--heap", type=parse_size, default="1Gi")
    parser.add_argument("--meanwhile")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="idmatch-lab-") as folder:
        lab = Lab(Path(folder), lambda line: print(line, file=sys.stderr), FOR_TESTS)
        meanwhile = subprocess.Popen(shlex.split(options.meanwhile or "true"))
        try:
            nodes = lab.up(options.nodes, options.heap, options.network)
            points = ",".join(node.address for node in nodes)
            environment = os.environ | {"IDMATCH_TEST_CQL": points}
            if code := meanwhile.wait():
                return code
            return subprocess.run(options.command, env=environment, check=False).returncode
        finally:
            meanwhile.terminate()
            meanwhile.wait()
            lab.down(delete=True)


if __name__ == "__main__":
    sys.exit(main())
