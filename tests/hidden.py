"""Packages that the tests do without, also in the processes that they start.

    IDMATCH_TEST_WITHOUT=numpy,psutil pytest tests

They are those of extras. What is about these packages, or needs them to begin with, is skipped.
"""

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

HIDDEN = [name for name in os.environ.get("IDMATCH_TEST_WITHOUT", "").split(",") if name]
# Files of tests that begin with such a package.
FILES = (
    *("test_cql_faults.py", "test_cql_secure.py", "test_lab.py", "test_sample.py"),
    *("test_dask.py", "test_dask_loads.py", "test_flights.py", "test_notebook.py"),
    *("test_results.py", "test_docs.py"),
)

needs_numpy = pytest.mark.skipif("numpy" in HIDDEN, reason="is about numpy, which is hidden")


def _hide() -> None:
    """Puts modules that cannot be imported before these packages."""
    folder = tempfile.mkdtemp(prefix="idmatch-hidden-")
    # Some tests are another user.
    Path(folder).chmod(0o755)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name in HIDDEN:
        text = f"raise ModuleNotFoundError({f'No module named {name!r}'!r}, name={name!r})\n"
        Path(folder, f"{name}.py").write_text(text)
    sys.path.insert(0, folder)
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = folder if before is None else f"{folder}{os.pathsep}{before}"


# As soon as this is imported: others import the packages.
if HIDDEN:
    _hide()
