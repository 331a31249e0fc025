"""`idmatch lab up --with hive,hdfs`: what the command starts, and where Hive has its tables."""

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from impala.dbapi import connect

_NETWORK = "127.73.73"


def lab(home: Path, *words: object) -> Any:
    """The document that a command of the lab prints."""
    program = "from idmatch._cli import run; run()"
    command = [sys.executable, "-c", program, "lab", *map(str, words), "--dir", str(home), "--json"]
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(ran.stdout)


def states(document: Any) -> set[str]:
    """Of all daemons."""
    services = document["services"].values()
    return {daemon["state"] for service in services for daemon in service["daemons"]}


def test_a_lab_with_hive_and_hdfs(tmp_path: Path) -> None:
    """However the names are ordered."""
    home = tmp_path / "lab"
    try:
        started = lab(home, "up", "--nodes", 0, "--with", "hive,hdfs", "--network", _NETWORK)
        assert states(started) == {"up"}
        hive = urlsplit(started["services"]["hive"]["address"])
        with (
            closing(connect(hive.hostname, hive.port, auth_mechanism="PLAIN", user="me")) as server,
            closing(server.cursor()) as cursor,
        ):
            cursor.execute("CREATE TABLE t (id STRING) STORED AS PARQUET")
            cursor.execute("DESCRIBE FORMATTED t")
            said = {str(row[0]).strip(): str(row[1]) for row in cursor.fetchall()}
        assert said["Location:"].startswith("hdfs://")
    finally:
        ended = lab(home, "down")
    assert states(ended) == {"down"}
