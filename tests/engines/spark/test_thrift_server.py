"""Spark's own server speaks the protocol of Hive: its tables and queries are read as rows."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import idmatch
import pyarrow as pa
import pyspark
import pytest
from impala.dbapi import connect

HOST = "127.73.62.1"
HOME = Path(pyspark.__file__).parent
AT = datetime(2026, 11, 20, 10, 30, tzinfo=UTC)


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """That of a server with a table `seen` of two rows."""
    folder = tmp_path_factory.mktemp("thrift")
    with socket.create_server((HOST, 0)) as free:
        port = int(free.getsockname()[1])
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.hadoop.javax.jdo.option.ConnectionURL": "jdbc:derby:memory:ms;create=true",
        "spark.sql.session.timeZone": "UTC",
    }
    command = [str(HOME / "bin" / "spark-submit"), "--master", "local[2]", "--class"]
    command.append("org.apache.spark.sql.hive.thriftserver.HiveThriftServer2")
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    command += ["spark-internal", "--hiveconf", f"hive.server2.thrift.port={port}"]
    command += ["--hiveconf", f"hive.server2.thrift.bind.host={HOST}"]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            command,
            cwd=folder,
            env=os.environ | {"SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": HOST},
            stdout=log,
            stderr=log,
        )
    try:
        while server.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex((HOST, port)) == 0:
                    break
            time.sleep(0.2)
        cursor = connect(HOST, port, auth_mechanism="PLAIN", user="root").cursor()
        cursor.execute("CREATE TABLE seen (id string, pid string, t timestamp) STORED AS PARQUET")
        at = "TIMESTAMP '2026-11-20 10:30:00'"
        cursor.execute(f"INSERT INTO seen VALUES ('a', 'x', {at}), ('b', NULL, {at})")
        yield port
    finally:
        server.terminate()
        server.wait()


def test_a_table_and_a_query(port: int, tmp_path: Path) -> None:
    address = f"hive://{HOST}:{port}/default"
    with idmatch.open(tmp_path / "store") as store:
        table = store.create_table("t")
        report = table.load(f"{address}/seen", columns=["id", "pid", "t"])
        assert (report.rows, report.rejected) == (2, 1)
        (read,) = report.detected
        assert (read.format, read.why) == (
            "hive rows",
            "not its files: the server does not say what it is; no unload: the server runs no "
            "dfs, which removes what is unloaded",
        )
        assert table.lookup("a") == [("x", AT)]
        query = "SELECT id, count(*) AS n FROM seen GROUP BY id"
        found = table.match(idmatch.Hive(address, query), column="id", carry=["n"], how="left")
        assert pa.table(found)["n"].to_pylist() == [1, 1]
        for staging in ("", f"&staging=file:{tmp_path}"):
            with pytest.raises(idmatch.SourceError, match="cannot unload"):
                table.load(f"{address}/seen?via=unload{staging}")
        assert list(tmp_path.glob("idmatch-*")) == []
