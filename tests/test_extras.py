"""What is imported when, and what works without the packages of the extras."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import idmatch
import pytest
from conftest import Cli

# Makes imports of packages of extras fail, as they do where these are not installed.
BLOCKED = """
import json, sys
for name in ("numpy", "psutil", "obstore", "hdfs_native", "fsspec", "impala",
    "prometheus_client"):
    sys.modules[name] = None
from idmatch._cli import main
sys.exit(main(json.loads(sys.argv[1])))
"""


def without_extras(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a command where no package of an extra can be imported."""
    command = [sys.executable, "-c", BLOCKED, json.dumps(arguments)]
    return subprocess.run(command, cwd=home, capture_output=True, text=True)


def loaded_modules(code: str) -> set[str]:
    """The packages that Python has loaded after it ran this code."""
    code += "\nimport sys; print(*{name.partition('.')[0] for name in sys.modules})"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(ran.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    "code",
    [
        "import idmatch",
        "from idmatch._cli import main\ntry: main(['--help'])\nexcept SystemExit: pass",
        "from idmatch._cli import main\nmain(['lookup', 'nowhere', 't', '--id', 'a'])",
    ],
)
def test_imports_are_lazy(code: str) -> None:
    assert loaded_modules(code).isdisjoint({"numpy", "obstore", "psutil", "pyarrow", "rich"})


def test_commands_wait_for_neither_pandas_nor_numpy(loaded: Cli) -> None:
    assert find_spec("pandas")
    assert find_spec("numpy"), "nothing to be hidden"
    command = [sys.executable, "-X", "importtime", "-c", loaded.program]
    ran = subprocess.run(
        [*command, "match", "store", "small", "people.parquet"],
        cwd=loaded.home,
        capture_output=True,
        text=True,
        check=True,
    )
    modules = {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines()}
    assert "pyarrow.lib" in modules
    assert not {name for name in modules if name.startswith(("pandas.", "numpy."))}


def test_commands_work_without_extras(loaded: Cli) -> None:
    ran = without_extras(loaded.home, "load", "store", "again", "small.parquet", "--json")
    assert (ran.returncode, ran.stderr) == (0, "")
    ran = without_extras(loaded.home, "match", "store", "again", "people.parquet", "--json")
    assert json.loads(ran.stdout)["rows"] == 3
    ran = without_extras(loaded.home, "lookup", "store", "again", "--id", "a", "--json")
    assert len(json.loads(ran.stdout)["matches"]) == 2


@pytest.mark.parametrize(
    ("extra", "package", "command"),
    [
        ("sample", "numpy", ["sample", "made"]),
        ("lab", "psutil", ["lab", "status"]),
        ("cloud", "obstore", ["export", "nowhere", "t", "-o", "s3://bucket/out.csv"]),
        ("hdfs", "hdfs_native", ["export", "nowhere", "t", "-o", "hdfs://lab/out.csv"]),
        ("hive", "impala", ["load", "made", "t", "hive://lab/d/t"]),
        ("hdfs", "fsspec", ["load", "made", "t", "webhdfs://lab/in.csv"]),
    ],
)
def test_errors_name_the_extra(
    tmp_path: Path, extra: str, package: str, command: list[str]
) -> None:
    ran = without_extras(tmp_path, *command)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert package in ran.stderr
    assert f"install idmatch with its extra {extra!r}" in ran.stderr


@pytest.mark.parametrize(
    "command",
    [
        ["exporter", "store", "--listen", "127.0.0.1:0"],
        ["upsert", "store", "small", "-", "--metrics", "127.0.0.1:0"],
    ],
)
def test_figures_name_their_extra(loaded: Cli, command: list[str]) -> None:
    ran = without_extras(loaded.home, *command)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "prometheus_client" in ran.stderr
    assert "install idmatch with its extra 'metrics'" in ran.stderr


def test_a_missing_extra_is_an_import_error() -> None:
    assert issubclass(idmatch.MissingExtra, ImportError)
