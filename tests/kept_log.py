"""A handler that keeps what the library logs, for tests to look at."""

import logging

from idmatch import _core


class Kept(logging.Handler):
    """Keeps the records that it gets."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def events(self, logger: str) -> list[tuple[str, dict[str, object]]]:
        """The texts and values of a logger's records."""
        _core.flush_logs()
        return [
            (vars(record)["event"], vars(record)["fields"])
            for record in self.records
            if record.name == logger
        ]

    def values(self, event: str, logger: str = "idmatch.engine") -> list[dict[str, object]]:
        """The values of each event with this text."""
        return [fields for text, fields in self.events(logger) if text == event]
