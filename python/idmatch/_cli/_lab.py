"""The command `idmatch lab`: a Cassandra cluster on this machine."""

import sys
from argparse import Namespace
from pathlib import Path

from .._lab import Lab, Node, cache, contact_points
from .._sizes import show_size
from ._output import print_columns, print_json

_DONE = 0


def lab(options: Namespace) -> int:
    """`idmatch lab`"""
    folder = Path(options.dir) if options.dir else cache() / "lab"
    cluster = Lab(folder, tell=lambda line: print(line, file=sys.stderr))
    match options.action:
        case "up":
            cluster.up(options.nodes, options.heap, options.network)
        case "down":
            cluster.down(options.delete)
        case "kill":
            cluster.kill(options.node)
        case "freeze":
            cluster.freeze(options.node)
        case "resume":
            cluster.resume(options.node)
    _show(cluster.nodes(), folder, options.json)
    return _DONE


def _show(nodes: list[Node], folder: Path, as_json: bool) -> None:
    if as_json:
        print_json({"folder": str(folder), "nodes": [_figures(node) for node in nodes]})
        return
    if not nodes:
        print(f"no lab in {folder}")
        return
    rows = [
        [str(node.number), node.address, node.state, show_size(_memory(node)), str(node.log)]
        for node in nodes
    ]
    print_columns(["node", "address", "state", "memory", "log"], rows)
    print(f"contact points: {contact_points(nodes)}")


def _figures(node: Node) -> dict[str, object]:
    state, process = node.state, node.process
    return {
        "node": node.number,
        "address": node.address,
        "state": state,
        "pid": process.pid if process and state != "down" else None,
        "memory": _memory(node),
        "log": str(node.log),
    }


def _memory(node: Node) -> int:
    process = node.process
    return process.memory_info().rss if process and node.state != "down" else 0
