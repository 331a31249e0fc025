"""What Prometheus would read: samples of an OpenMetrics text, by name and labels."""

import http.client
import signal
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from conftest import Cli
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families

OPEN_METRICS = "application/openmetrics-text; version=1.0.0"


class Samples:
    """The samples of one scrape."""

    def __init__(self, text: str) -> None:
        self.text = text
        found: Iterable[Metric] = text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
        self._families = list(found)

    def __iter__(self) -> Iterator[tuple[str, dict[str, str], float]]:
        for family in self._families:
            for sample in family.samples:
                yield sample.name, sample.labels, sample.value

    def of(self, name: str, **labels: str) -> float:
        """The value of the one sample with this name and these labels among its own."""
        (value,) = (
            value
            for found, has, value in self
            if found == name and all(has.get(key) == label for key, label in labels.items())
        )
        return value

    def by(self, name: str, label: str) -> dict[str, float]:
        """The values of a name, by one of their labels."""
        return {labels[label]: value for found, labels, value in self if found == name}

    def names(self) -> set[str]:
        """The names of all samples."""
        return {name for name, _, _ in self}

    def abouts(self) -> dict[str, str]:
        """The help text of each family."""
        return {family.name: family.documentation for family in self._families}


def scrape(url: str) -> Samples:
    """Asks as Prometheus does."""
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.netloc, timeout=30)
    connection.request("GET", place.path, headers={"Accept": OPEN_METRICS})
    answer = connection.getresponse()
    assert answer.status == 200
    text = answer.read().decode()
    connection.close()
    return Samples(text)


@contextmanager
def exporting(cli: Cli, *command: str) -> Iterator[str]:
    """The address at which an exporter answers; it ends well, and says nothing else."""
    running = subprocess.Popen(
        cli.command(*command, "--listen", "127.0.0.1:0"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cli.home,
    )
    assert running.stdout
    try:
        yield running.stdout.readline().removeprefix("listens on ").strip()
    finally:
        running.send_signal(signal.SIGTERM)
        _, err = running.communicate(timeout=60)
        assert (running.returncode, err) == (0, "")
