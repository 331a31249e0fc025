"""The command `idmatch lab`: a Cassandra cluster and other servers on this machine."""

import shlex
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from idmatch._lazy import LazyModule
from idmatch._sizes import show_size

from ._output import note, print_columns, print_json

if TYPE_CHECKING:
    from idmatch import _lab
else:
    # Imports psutil.
    _lab = LazyModule("idmatch._lab")

_DONE = 0


def lab(options: Namespace) -> int:
    """`idmatch lab`"""
    folder = Path(options.dir) if options.dir else _lab.cache() / "lab"
    cluster = _lab.Lab(folder, tell=note)
    match options.action:
        case "up":
            _up(cluster, options)
        case "down":
            _down(cluster, options.delete)
        case "kill":
            cluster.kill(options.node)
        case "freeze":
            cluster.freeze(options.node)
        case "resume":
            cluster.resume(options.node)
    _show(cluster.nodes(), _lab.services(folder, note), folder, options.json)
    return _DONE


def _up(cluster: "_lab.Lab", options: Namespace) -> None:
    names = _lab.in_order(name for name in options.services.split(",") if name)
    found = [_lab.service(name, cluster.folder, note, options.network) for name in names]
    # Before servers start, which takes minutes.
    for each in found:
        each.check()
    # A lab may have services alone.
    if options.nodes or not found:
        cluster.up(options.nodes, options.heap, options.network)
    if found:
        with cluster.locked():
            for each in found:
                each.start()


def _down(cluster: "_lab.Lab", delete: bool) -> None:
    cluster.down(delete)
    with cluster.locked():
        for name, each in _lab.services(cluster.folder, note).items():
            each.stop()
            if delete:
                _lab.wipe(name, cluster.folder)


def _show(
    nodes: "list[_lab.Node]", services: "dict[str, _lab.Service]", folder: Path, as_json: bool
) -> None:
    if as_json:
        document: dict[str, object] = {
            "folder": str(folder),
            "nodes": [_figures(node) for node in nodes],
        }
        if services:
            document["services"] = {name: _service_figures(each) for name, each in services.items()}
        print_json(document)
        return
    if not nodes and not services:
        print(f"no lab in {folder}")
        return
    if nodes:
        _show_nodes(nodes)
    for name, each in services.items():
        rows = [
            [daemon.name, daemon.address, _state(daemon), show_size(_rss(daemon)), str(daemon.log)]
            for daemon in each.daemons
        ]
        print_columns([name, "address", "state", "memory", "log"], rows)
        print(f"address: {each.address}")
        for variable, value in each.environment.items():
            print(f"export {variable}={shlex.quote(value)}")


def _service_figures(service: "_lab.Service") -> dict[str, object]:
    daemons = [
        {
            "name": daemon.name,
            "address": daemon.address,
            "state": _state(daemon),
            "pid": daemon.process.pid if daemon.process else None,
            "memory": _rss(daemon),
            "log": str(daemon.log),
        }
        for daemon in service.daemons
    ]
    return {
        "address": service.address,
        "environment": dict(service.environment),
        "daemons": daemons,
    }


def _state(daemon: "_lab.Daemon") -> str:
    return "up" if daemon.process else "down"


def _rss(daemon: "_lab.Daemon") -> int:
    process = daemon.process
    return process.memory_info().rss if process else 0


def _show_nodes(nodes: "list[_lab.Node]") -> None:
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
