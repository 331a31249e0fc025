"""`idmatch checkpoint`, and the messages of other commands about checkpoints."""

import argparse
from collections.abc import Sequence

from idmatch._results import Checkpoint
from idmatch._sizes import show_size
from idmatch._store import Store

from ._output import note, print_json, warn
from ._stores import open_existing

_DONE = 0


def checkpoint(options: argparse.Namespace) -> int:
    """`idmatch checkpoint`"""
    with open_existing(options.store) as store:
        if options.remove:
            store.remove_checkpoint(options.remove)
            return _DONE
        made = store.checkpoint(options.destination, keep=options.keep)
    if options.json:
        print_json(as_json(made))
    else:
        print(made.path)
    return _DONE


def add_checkpoint(command: argparse.ArgumentParser) -> None:
    """The options of `idmatch checkpoint` after the store."""
    command.add_argument(
        "destination",
        metavar="DEST",
        nargs="?",
        help="a directory that does not exist yet; without it, one in the folder of the store",
    )
    command.add_argument(
        "--keep", metavar="TIME", default="24h", help="how long it stays: 1m to 7d; 24h by default"
    )
    command.add_argument("--remove", metavar="PATH", help="remove this checkpoint instead")


def as_json(checkpoint: Checkpoint) -> dict[str, object]:
    """A checkpoint in a JSON document."""
    fields = checkpoint._asdict()
    return fields | {"at": checkpoint.at.isoformat(), "until": checkpoint.until.isoformat()}


def tell(checkpoints: Sequence[Checkpoint]) -> None:
    """Notes each checkpoint of a store."""
    for one in checkpoints:
        note(
            f"checkpoint {one.path} of {one.at:%Y-%m-%d %H:%M} UTC stays until "
            f"{one.until:%Y-%m-%d %H:%M} UTC, and holds {show_size(one.held_bytes)}"
        )


def tell_erased(store: Store, checkpoints: Sequence[Checkpoint], drops: bool) -> None:
    """Says which checkpoints still show erased rows, or removes them."""
    for one in checkpoints:
        if drops:
            store.remove_checkpoint(one)
            note(f"removed checkpoint {one.path}, which still had the rows")
        else:
            warn(
                f"checkpoint {one.path} still shows the rows, until {one.until:%Y-%m-%d %H:%M} "
                "UTC; erase with --drop-checkpoints, or remove it"
            )
