"""The command `idmatch`."""

from ._main import main

__all__ = ["main"]
