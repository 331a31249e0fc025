"""Prometheus with the rules and alerts of idmatch. It scrapes exporters on this machine's loopback.

The program is the one on the PATH, such as Debian's. It listens on A.B.C.1 of the lab's network.
Each start finds the exporters that answer: an exporter that was not started would raise an alert.
"""

import json
import shutil
import urllib.request
from importlib import resources
from pathlib import Path

from idmatch._errors import Error

from ._daemon import Daemon
from ._ports import check_free, listens
from ._service import Service, Tell

_PORT = 9090
_READY_SECONDS = 60.0
_EXPORTERS_HOST = "127.0.0.1"
PORTS = {"idmatch": 7301, "idmatch-cluster": 7302, "idmatch-process": 7303}
"""The ports of exporters in the docs, by their jobs."""


class Prometheus(Service):
    """A server in a folder."""

    def __init__(
        self, folder: Path, tell: Tell = lambda _: None, network: str | None = None
    ) -> None:
        """See `Service`."""
        super().__init__(folder, tell, network)
        self._data = f"--storage.tsdb.path={self.folder}/data"
        self.server = Daemon("prometheus", self.folder, self.address, mark=self._data)

    @property
    def daemons(self) -> list[Daemon]:
        """See `Service`."""
        return [self.server]

    @property
    def address(self) -> str:
        """The address of its page."""
        return f"http://{self._network}.1:{_PORT}"

    def check(self) -> None:
        """See `Service`: Prometheus itself."""
        _program()

    def start(self) -> None:
        """See `Service`. Raises the error of `check`."""
        host = f"{self._network}.1"
        if self.server.process is None:
            program = _program()
            check_free(host, _PORT)
            self.folder.mkdir(parents=True, exist_ok=True)
            self._keep_network()
            self._configure()
            self._find_exporters()
            self._tell("starting prometheus")
            listen = f"--web.listen-address={host}:{_PORT}"
            config = f"--config.file={self.folder}/prometheus.yml"
            self.server.run([program, config, self._data, listen])
        else:
            self._find_exporters()
        self.server.wait_until(self._is_ready, _READY_SECONDS)

    def _is_ready(self) -> bool:
        """Whether it answers queries: it listens before it can answer."""
        try:
            with urllib.request.urlopen(f"{self.address}/-/ready", timeout=10):
                return True
        except OSError:
            return False

    def _find_exporters(self) -> None:
        """Lists the exporters that answer now as targets. A running Prometheus sees the file
        change.
        """
        found = {job: port for job, port in PORTS.items() if listens(_EXPORTERS_HOST, port)}
        if not found:
            ports = ", ".join(map(str, PORTS.values()))
            self._tell(
                f"no exporter answers on {_EXPORTERS_HOST} at {ports}; start one, then run this "
                "command again"
            )
        groups = [
            {"targets": [f"{_EXPORTERS_HOST}:{port}"], "labels": {"job": job}}
            for job, port in found.items()
        ]
        scratch = self.folder / "exporters.new"
        scratch.write_text(json.dumps(groups, indent=1))
        scratch.replace(self.folder / "exporters.json")

    def _configure(self) -> None:
        """Writes the configuration. A file that exists stays, with the changes of the user."""
        ours = resources.files(__package__).joinpath("monitoring")
        (self.folder / "rules").mkdir(exist_ok=True)
        for name in ("prometheus.yml", "rules/recording.yml", "rules/alerts.yml"):
            place = self.folder / name
            if not place.exists():
                place.write_text(ours.joinpath(name).read_text())


def _program() -> str:
    """The path of Prometheus. Raises Error where there is none."""
    found = shutil.which("prometheus")
    if found is None:
        raise Error(
            "monitoring needs prometheus on the PATH; on Debian: apt-get install prometheus"
        )
    return found
