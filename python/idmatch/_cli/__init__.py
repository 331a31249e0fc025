"""The command `idmatch`."""

from ._main import main, run

__all__ = ["main", "run"]
