"""Options of the commands that try things out: sample data, and a cluster on this machine."""

import argparse

from ._inputs import size


def add_sample(sample: argparse.ArgumentParser) -> None:
    """The options of `idmatch sample`."""
    sample.add_argument("directory", metavar="DIR")
    sample.add_argument(
        "--people", metavar="N", type=size, default=1_000_000, help="people (default: 1M)"
    )
    sample.add_argument(
        "--partners", metavar="N", type=size, default=3, help="match tables (default: 3)"
    )
    sample.add_argument(
        "--seed", metavar="N", type=int, default=7, help="the same seed gives the same data"
    )
    sample.add_argument("--overwrite", action="store_true", help="replace files that exist")


def add_lab(lab: argparse.ArgumentParser) -> None:
    """The options of `idmatch lab`."""
    actions = lab.add_subparsers(metavar="ACTION", required=True, dest="action")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--dir",
        metavar="DIR",
        help="where the nodes keep their data (default: in the user's cache)",
    )
    # A default would overwrite an option given before the action.
    common.add_argument(
        "--json",
        action="store_true",
        default=argparse.SUPPRESS,
        help="print one JSON document on stdout and nothing else",
    )

    def action(name: str, description: str) -> argparse.ArgumentParser:
        return actions.add_parser(name, parents=[common], help=description, description=description)

    up = action("up", "Start the cluster, or those of its nodes that do not run.")
    up.add_argument("--nodes", metavar="N", type=size, default=1, help="how many (default: 1)")
    up.add_argument(
        "--with",
        dest="services",
        metavar="NAMES",
        default="",
        help="also start these servers: hdfs, hive, spark, monitoring (Prometheus); with "
        "--nodes 0 they alone",
    )
    up.add_argument(
        "--heap", metavar="SIZE", type=size, help="of each node (what it had, or 512Mi)"
    )
    up.add_argument(
        "--network",
        metavar="A.B.C",
        default="127.0.0",
        help="nodes listen on loopback addresses A.B.C.1, A.B.C.2 ... (default: 127.0.0)",
    )
    action("status", "Show the nodes.")
    down = action("down", "Stop the cluster; its data stays.")
    down.add_argument("--delete", action="store_true", help="delete its data too")
    for name, description in (
        ("kill", "Kill a node, as a crash does."),
        ("freeze", "Hang a node: it keeps its connections and does not respond."),
        ("resume", "Resume a hung node, or start one that does not run."),
    ):
        action(name, description).add_argument("node", metavar="N", type=int)
