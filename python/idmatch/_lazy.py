"""Modules that are imported when they are first used.

`import idmatch` and a lookup must not wait for pyarrow, numpy, psutil, obstore, hdfs_native or
impala. All but pyarrow come with extras and may be missing; then the error names the extra.
"""

from importlib import import_module
from types import ModuleType

from ._errors import MissingExtra

_EXTRAS = {
    "numpy": "sample",
    "psutil": "lab",
    "obstore": "cloud",
    "boto3": "cloud",
    "botocore": "cloud",
    "hdfs_native": "hdfs",
    "fsspec": "hdfs",
    "requests": "hdfs",
    "impala": "hive",
    "thrift": "hive",
    "prometheus_client": "metrics",
}


class LazyModule:
    """Stands for a module. The first use of an attribute imports it.

    Raises MissingExtra where a package is missing that an extra installs.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._module: ModuleType | None = None

    def __getattr__(self, attribute: str) -> object:
        if self._module is None:
            self._module = self._imported()
        return getattr(self._module, attribute)

    def _imported(self) -> ModuleType:
        try:
            return import_module(self._name)
        except ModuleNotFoundError as error:
            package = (error.name or "").partition(".")[0]
            if package not in _EXTRAS:
                raise
            raise MissingExtra(
                f"this needs {package}, which is not installed; "
                f"install idmatch with its extra {_EXTRAS[package]!r}: "
                f"in a checkout, pip install '.[{_EXTRAS[package]}]'"
            ) from error
