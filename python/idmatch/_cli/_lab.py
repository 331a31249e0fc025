"""The command `idmatch lab`: a Cassandra cluster on this machine."""

import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from idmatch._lazy import LazyModule
from idmatch._sizes import show_size

from ._output import print_columns, print_json

if TYPE_CHECKING:
    from idmatch import _lab
else:
    # Imports psutil.
    _lab = LazyModule("idmatch._lab")

_DONE = 0


def lab(options: Namespace) -> int:
    """`idmatch lab`"""
    folder = Path(options.dir) if options.dir else _lab.cache() / "lab"
    cluster = _lab.Lab(folder, tell=lambda line: print(line, file=sys.stderr))
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


def _show(nodes: "list[_lab.Node]", folder: Path, as_json: bool) -> None:
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
    print(f"contact points: {_lab.contact_points(nodes)}")


def _figures(node: "_lab.Node") -> dict[str, object]:
    state, process = node.state, node.process
    return {
        "node": node.number,
        "address": node.address,
        "state": state,
        "pid": process.pid if process and state != "down" else None,
        "memory": _memory(node),
        "log": str(node.log),
    }


def _memory(node: "_lab.Node") -> int:
    process = node.process
    return process.memory_info().rss if process and node.state != "down" else 0
