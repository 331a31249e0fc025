"""A real Prometheus with the rules of this project, for tests."""

import json
import os
import re
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

MONITORING = Path(__file__).parent.parent.parent / "monitoring"
TOOLS = Path(os.environ.get("IDMATCH_TEST_PROMETHEUS", ""))
"""Where prometheus and promtool are."""


# Scrapes are a second apart, and rates want two of them.
_TIMEOUT_SECONDS = 120.0


class Prometheus:
    """A running Prometheus with the rules of this project."""

    def __init__(self, home: Path, targets: dict[str, list[str]]) -> None:
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(MONITORING / "rules" / "*.yml")],
            "scrape_configs": [
                {"job_name": job, "static_configs": [{"targets": places}]}
                for job, places in targets.items()
            ],
        }
        # JSON is YAML.
        (home / "prometheus.yml").write_text(json.dumps(config))
        self.log = open(home / "log", "w+")  # noqa: SIM115 - for its life
        self.running = subprocess.Popen(
            [
                TOOLS / "prometheus",
                f"--config.file={home / 'prometheus.yml'}",
                f"--storage.tsdb.path={home / 'data'}",
                "--web.listen-address=127.0.0.1:0",
            ],
            stderr=self.log,
            stdout=self.log,
        )
        self.url = f"http://{self._address()}"
        self._wait_until_ready()

    def _address(self) -> str:
        while self.running.poll() is None:
            told = re.search(r"Listening on\" address=([\d.:]+)", Path(self.log.name).read_text())
            if told:
                return told[1]
            time.sleep(0.1)
        raise AssertionError(Path(self.log.name).read_text())

    def _wait_until_ready(self) -> None:
        """Returns once it answers: it listens before that."""
        until = time.monotonic() + _TIMEOUT_SECONDS
        while True:
            try:
                urllib.request.urlopen(f"{self.url}/-/ready", timeout=60).close()
                return
            except urllib.error.HTTPError:
                assert time.monotonic() < until, Path(self.log.name).read_text()
                time.sleep(0.1)

    def ask(self, query: str) -> list[Any]:
        """The result of a query now."""
        asked = urllib.parse.urlencode({"query": query})
        with urllib.request.urlopen(f"{self.url}/api/v1/query?{asked}", timeout=60) as answer:
            found: list[Any] = json.load(answer)["data"]["result"]
        return found

    def wait(self, query: str) -> list[Any]:
        """The result of a query once it has any. Fails where it has none for long."""
        until = time.monotonic() + _TIMEOUT_SECONDS
        while not (found := self.ask(query)):
            assert self.running.poll() is None, Path(self.log.name).read_text()
            assert time.monotonic() < until, f"nothing for {query}"
            time.sleep(0.5)
        return found

    def expression(self, alert: str) -> str:
        """What an alert asks."""
        with urllib.request.urlopen(f"{self.url}/api/v1/rules?type=alert") as answer:
            groups = json.load(answer)["data"]["groups"]
        (found,) = (
            rule["query"] for group in groups for rule in group["rules"] if rule["name"] == alert
        )
        return str(found)

    def close(self) -> None:
        self.running.terminate()
        self.running.wait(timeout=60)
        self.log.close()
