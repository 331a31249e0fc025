"""Modules that are imported when they are first used.

`import idmatch` and a lookup must not wait for pyarrow, rich, numpy or psutil. The last two come
with extras, so they may be missing: then the error names the extra.
"""

from importlib import import_module

from ._errors import MissingExtra


class LazyModule:
    """Stands for a module, which the first use of an attribute imports.

    With an `extra`, a module that is not installed raises MissingExtra.
    """

    def __init__(self, name: str, extra: str | None = None) -> None:
        self._name = name
        self._extra = extra

    def __getattr__(self, attribute: str) -> object:
        try:
            module = import_module(self._name)
        except ModuleNotFoundError as error:
            if self._extra is None or error.name != self._name:
                raise
            raise MissingExtra(
                f"{self._name} is not installed; run: pip install 'idmatch[{self._extra}]'"
            ) from error
        return getattr(module, attribute)
