"""The format of CSV input: delimiter, quote, encoding, header and nulls."""

import codecs
from typing import NamedTuple

from ._errors import InvalidArgument


class Csv(NamedTuple):
    """How a CSV file or stream is written, where it differs from most.

    Options that are left out are detected, or are as in RFC 4180. Options that no reader can
    follow raise InvalidArgument when they are used.
    """

    delimiter: str | None = None
    """One character; by default whichever of comma, tab, semicolon and bar comes first in the first
    line."""
    quote: str | None = '"'
    """One character, which is doubled inside of quotes; None where nothing is quoted."""
    encoding: str = "utf-8"
    """Any encoding of Python: "latin-1", "cp1252", "utf-16"."""
    header: bool = True
    """Whether the first line names the columns; otherwise they are called "1", "2" and so on."""
    null: tuple[str, ...] = ()
    """Texts outside of quotes that mean a missing value, besides the empty one."""
    comment: str | None = None
    """Lines that begin with this text are no rows: before the header, and malformed ones after
    it."""

    def check(self) -> None:
        """Raises InvalidArgument for options that no reader can follow."""
        for what, text in (("delimiter", self.delimiter), ("quote", self.quote)):
            if text is not None and (len(text) != 1 or not text.isascii() or text in "\r\n"):
                raise InvalidArgument(f"the CSV {what} is {text!r}; it is one ASCII character")
        if self.delimiter is not None and self.delimiter == self.quote:
            raise InvalidArgument("the CSV delimiter and quote are the same; choose two characters")
        if self.comment == "":
            raise InvalidArgument("the CSV comment is empty; name what such lines begin with")
        try:
            codecs.lookup(self.encoding)
        except LookupError:
            raise InvalidArgument(
                f"there is no encoding {self.encoding!r}; name one such as latin-1 or utf-16"
            ) from None

    @property
    def is_utf_8(self) -> bool:
        """Whether bytes are read as they are, broken UTF-8 included."""
        return codecs.lookup(self.encoding).name in ("utf-8", "ascii", "utf-8-sig")
