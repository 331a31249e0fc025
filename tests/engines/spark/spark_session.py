"""A Spark session for tests: a cluster of two hosts, where slow tasks run twice.

Test modules name it in `pytest_plugins`. Programs and workers find idmatch and this folder.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import idmatch
import pytest
from idmatch._lab import service
from pyspark.sql import SparkSession

HERE = Path(__file__).parent
PACKAGE = Path(idmatch.__file__).parents[1]
ATTEMPTS = 3
"""How often a task may run before its query fails."""

_NETWORK = "127.73.61"


def environment() -> dict[str, str]:
    """What a process needs that starts Spark."""
    path = os.pathsep.join([str(PACKAGE), str(HERE), os.environ.get("PYTHONPATH", "")])
    return {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": path}


@contextmanager
def _cluster(work: Path) -> Iterator[str]:
    """The address of a master with two workers."""
    cluster = service("spark", work / "lab", lambda _: None, _NETWORK)
    try:
        cluster.start()
        yield cluster.address
    finally:
        cluster.stop()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with task retries and speculative execution."""
    work = tmp_path_factory.mktemp("spark")
    os.environ.update(environment())
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": f"{_NETWORK}.1",
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.local.dir": work,
        "spark.sql.warehouse.dir": work / "warehouse",
        "spark.sql.shuffle.partitions": 2,
        "spark.task.maxFailures": ATTEMPTS,
        "spark.speculation": "true",
        "spark.speculation.interval": "50ms",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.multiplier": "2",
        # So that tasks have several batches.
        "spark.sql.execution.arrow.maxRecordsPerBatch": 500,
        "spark.sql.python.filterPushdown.enabled": "true",
        # Windows and dates must not depend on it.
        "spark.sql.session.timeZone": "America/New_York",
    }
    with _cluster(work) as master:
        builder = SparkSession.builder.master(master).appName("idmatch")
        for name, value in settings.items():
            builder = builder.config(name, str(value))
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        yield session
        session.stop()
