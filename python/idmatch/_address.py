"""Addresses: paths and URLs that users name. Imports nothing of idmatch.

Invariant: text of an `Address` has no user, password or options of a URL; only `whole` has them.
"""

import re

# A URL may have blanks around the colon, or a user and no slashes. One letter is no scheme.
_URL = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]+)\s*:(?=\s*/|[^/]*@|[A-Za-z][A-Za-z0-9+.-]*:/)")


class Address:
    """A path, or a URL with its user, password and options.

    `str`, `repr` and f-strings show a path as it is, and a URL without user, password and options,
    well-formed or not. A pickle contains the whole address.
    """

    __slots__ = ("whole",)

    def __init__(self, whole: str) -> None:
        self.whole = whole
        """The full path or URL, for code that opens it."""

    @property
    def is_url(self) -> bool:
        """Whether it starts like a URL, well-formed or not."""
        return _URL.match(self.whole) is not None

    @property
    def is_hdfs(self) -> bool:
        """Whether it names files of HDFS, by either of its protocols."""
        return self._scheme in ("hdfs", "webhdfs")

    @property
    def is_hive(self) -> bool:
        """Whether it names a database or a table of Hive."""
        return self._scheme == "hive"

    @property
    def _scheme(self) -> str:
        start = _URL.match(self.whole)
        return start[1].lower() if start else ""

    def scrub(self, message: str) -> str:
        """The message with this URL replaced by its text without user, password and options,
        wherever a library has put it.
        """
        if self.is_url:
            shown, whole = str(self), self.whole.strip()
            for part in (self.whole, whole, repr(self.whole)[1:-1], whole.partition(":")[2]):
                if part not in shown:
                    message = message.replace(part, shown)
        return message

    def __str__(self) -> str:
        start = _URL.match(self.whole)
        if not start:
            return self.whole
        # A password may have any of / ? and @ itself.
        before, at, rest = self.whole[start.end() :].rpartition("@")
        place = (rest if at else before + rest).partition("?")[0].strip("/ ")
        return f"{start[1].lower()}://{place}"

    def __repr__(self) -> str:
        return f"Address({str(self)!r})"
