"""What a caller says of the sources of a write: the format and the time zone of dates, or one date
for all rows, and the options of CSV.

Loads, upserts and sessions share it. Must not know sources or columns. Invariant: a source has a
column of dates, or one date for all rows, never both.
"""

from datetime import date, datetime
from typing import NamedTuple

from ._core import parse_instant
from ._csv_options import Csv
from ._errors import InvalidArgument
from ._times import observed_at, to_datetime


class Written(NamedTuple):
    """The default is ISO 8601 in UTC, in a column, and CSV as most files are."""

    format: str | None = None
    tz: str | None = None
    dated: str | None = None
    """In place of a column: the date of all rows, as ISO 8601 text."""
    csv: Csv | None = None

    @property
    def rules(self) -> tuple[str | None, str | None]:
        """The rules by which the core reads a column of dates: format and time zone."""
        return self.format, self.tz


def written(
    date_format: str | None,
    tz: str | None,
    dated: datetime | date | str | None,
    csv: Csv | None = None,
) -> Written:
    """The arguments of a caller, checked.

    Raises InvalidArgument if `dated` is no date, or `date_format` is given, too.
    """
    if dated is None:
        return Written(date_format, tz, None, csv)
    if date_format is not None:
        raise InvalidArgument("a source without a column of dates has no date format; name one")
    at = observed_at(dated)
    if isinstance(at, str):
        # A period before now is no date of a delivery.
        if not at[:4].isdigit():
            raise InvalidArgument(f"{at!r} is no date; write it like 2026-11-20")
        parse_instant(at)
        return Written(None, tz, at, csv)
    return Written(None, None, to_datetime(at).isoformat(), csv)
