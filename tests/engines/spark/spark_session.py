"""A Spark session for tests: a cluster of two hosts, where slow tasks run twice.

Test modules name it in `pytest_plugins`. Programs and workers find idmatch and this folder.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import idmatch
import pyspark
import pytest
from pyspark.sql import SparkSession

HERE = Path(__file__).parent
PACKAGE = Path(idmatch.__file__).parents[1]
ATTEMPTS = 3
"""How often a task may run before its query fails."""

# Spark repeats a slow task on another host only.
_DRIVER, _HOSTS = "127.73.61.1", ("127.73.61.2", "127.73.61.3")


def environment() -> dict[str, str]:
    """What a process needs that starts Spark."""
    path = os.pathsep.join([str(PACKAGE), str(HERE), os.environ.get("PYTHONPATH", "")])
    return {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": path}


@contextmanager
def _cluster(work: Path) -> Iterator[str]:
    """The address of a master, which has a worker of one core on each host."""
    program = Path(pyspark.__file__).parent / "bin" / "spark-class"
    deploy = "org.apache.spark.deploy"
    with socket.create_server((_DRIVER, 0)) as free:
        port = free.getsockname()[1]
    master = f"spark://{_DRIVER}:{port}"
    commands = [[f"{deploy}.master.Master", "--host", _DRIVER, "--port", str(port)]]
    for host in _HOSTS:
        limits = ["--cores", "1", "--memory", "512m", "--work-dir", str(work / host)]
        commands.append([f"{deploy}.worker.Worker", "--host", host, *limits, master])
    running: list[subprocess.Popen[bytes]] = []
    try:
        with open(work / "cluster.log", "wb") as log:
            running.extend(
                subprocess.Popen(
                    [program, *command, "--webui-port", "0"],
                    env=os.environ | {"SPARK_DAEMON_MEMORY": "128m"},
                    stdout=log,
                    stderr=log,
                )
                for command in commands
            )
        yield master
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with task retries and speculative execution."""
    work = tmp_path_factory.mktemp("spark")
    os.environ.update(environment())
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": _DRIVER,
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
