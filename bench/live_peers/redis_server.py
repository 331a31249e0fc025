"""Redis, Debian's, as an instance of its own behind a unix socket; the client is redis-py with
hiredis.

Layout: a sorted set per id (`i:ID`: its partner ids, scored by date) and one per partner id
(`p:PARTNER_ID`). Newest date: ZADD GT. A batch is one call of a Lua script, which runs alone and is
in the log as one MULTI/EXEC. A pipeline of 2,000 ZADDs in MULTI/EXEC does the same, at half the
speed: redis-py then takes 9 ms of a processor for each batch, and 1 ms for the script.

Settings: appendonly with appendfsync always (one sync for all commands of a turn of its event loop,
before it answers), no RDB snapshots. All data is in memory, and there is no limit to it: what it
takes is part of the figures.

Fill: mass insertion by `redis-cli --pipe` with the log off; then the log is switched on, which
writes all data to it.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import redis

from live_peers.base import Batch, Client, Found, LeftOut, LivePeer
from live_peers.servers import Server, ServerFailed, as_user, check_socket_path

_UPSERT = """
    for at = 1, #ARGV, 3 do
        redis.call('ZADD', 'i:' .. ARGV[at], 'GT', ARGV[at + 2], ARGV[at + 1])
        redis.call('ZADD', 'p:' .. ARGV[at + 1], 'GT', ARGV[at + 2], ARGV[at])
    end
"""
_SETTINGS = {
    "port": "0",
    "save": "",
    "appendonly": "yes",
    "appendfsync": "always",
    "no-appendfsync-on-rewrite": "no",
    "daemonize": "no",
    "maxclients": "200",
}


class Redis(LivePeer):
    """One private instance."""

    processes = 4
    log_files = "appendonlydir/*.incr.aof"

    def __init__(self, workspace: Path) -> None:
        super().__init__(workspace)
        self._socket = workspace / "redis.sock"

    def version(self) -> str:
        text = subprocess.run(
            [self._program("redis-server"), "--version"], check=True, capture_output=True, text=True
        ).stdout
        return text.split("v=")[1].split()[0]

    def _program(self, name: str) -> str:
        path = shutil.which(name)
        if not path:
            raise LeftOut(f"{name} is not installed: apt-get install redis-server")
        return path

    def settings(self) -> Mapping[str, str]:
        return {
            "layout": "sorted sets i:ID and p:PARTNER_ID",
            "durable": "appendonly yes, appendfsync always",
            "newest": "ZADD GT, in a script",
            "writers": f"one connection each, in {self.processes} processes",
            "cache": "everything is in memory",
            "options": " ".join(f"{name}={value!r}" for name, value in _SETTINGS.items()),
        }

    def start(self) -> None:
        check_socket_path(self.workspace)
        command = [self._program("redis-server")]
        places = {
            "dir": str(self.workspace),
            "unixsocket": str(self._socket),
            "unixsocketperm": "700",
        }
        for name, value in (places | _SETTINGS).items():
            command += [f"--{name}", value]
        self._server = Server(command, self.workspace, self._answers)

    def _answers(self) -> bool:
        try:
            return bool(self._connection().ping())
        except redis.exceptions.RedisError:  # also while it loads its log
            return False

    def _connection(self) -> redis.Redis:
        return redis.Redis(unix_socket_path=str(self._socket), decode_responses=True)

    def fill(self, chunks: Iterable[Batch]) -> None:
        database = self._connection()
        database.config_set("appendonly", "no")
        command = [*as_user(), self._program("redis-cli"), "-s", str(self._socket), "--pipe"]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as insertion:
            assert insertion.stdin
            assert insertion.stdout
            for chunk in chunks:
                insertion.stdin.write(_commands(chunk))
            insertion.stdin.close()
            said = insertion.stdout.read()
        if insertion.returncode or "errors: 0" not in said:
            raise ServerFailed(f"redis-cli --pipe: {said.strip()[-300:]}")
        database.config_set("appendonly", "yes")
        while (state := database.info("persistence"))["aof_rewrite_in_progress"] or state[
            "aof_rewrite_scheduled"
        ]:
            time.sleep(0.05)
        if state["aof_last_bgrewrite_status"] != "ok":
            raise ServerFailed("the log could not be written")

    def connect(self) -> Client:
        return _Connection(self._connection())

    def stop(self) -> None:
        self._server.stop(signal.SIGTERM)

    def memory_bytes(self) -> int:
        return int(self._connection().info("memory")["used_memory"])


class _Connection(Client):
    def __init__(self, database: redis.Redis) -> None:
        self._database = database
        self._upsert = database.register_script(_UPSERT)

    def upsert(self, batch: Batch) -> None:
        rows = zip(batch.ids, batch.partner_ids, batch.seen_at, strict=True)
        self._upsert(args=list(chain.from_iterable(rows)))

    def partner_ids(self, key: str) -> Found:
        return self._newest_first(f"i:{key}")

    def ids(self, key: str) -> Found:
        return self._newest_first(f"p:{key}")

    def _newest_first(self, key: str) -> Found:
        found: Any = self._database.zrange(key, 0, -1, desc=True, withscores=True)
        return [(member, int(score)) for member, score in found]

    def close(self) -> None:
        self._database.close()


def _commands(batch: Batch) -> str:
    """The ZADDs of a batch in Redis' own protocol; all of it is ASCII, so that lengths are those of
    the bytes.
    """
    commands: list[str] = []
    for one, other, date in zip(batch.ids, batch.partner_ids, batch.seen_at, strict=True):
        score = f"$2\r\nGT\r\n${len(str(date))}\r\n{date}\r\n"
        commands += (
            f"*5\r\n$4\r\nZADD\r\n${len(key) + 2}\r\n{side}:{key}\r\n{score}"
            f"${len(value)}\r\n{value}\r\n"
            for side, key, value in (("i", one, other), ("p", other, one))
        )
    return "".join(commands)


PEER = Redis
