"""Text from outside, such as names and addresses, as it may be printed. Imports nothing of idmatch.

Invariants: `escaped` and `shown` return no control characters; `without_secrets` and `scrubbed`
return no user, password and option of a URL.
"""

import re

_MOST_CHARACTERS = 80
# Years have four.
_VALUE_DIGITS = 5
# Also with blanks, or without its slashes where there is a user. One letter is no scheme.
_URL = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]+)\s*:(?=\s*/|[^/]*@|[A-Za-z][A-Za-z0-9+.-]*:/)")


def escaped(text: str) -> str:
    """The text with escapes in place of what does not print, such as ESC and line ends."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shown(text: str) -> str:
    """A name, escaped, and cut where it is long."""
    cut = text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 1] + "…"
    return escaped(cut)


def looks_like_value(name: str) -> bool:
    """Whether the name of a column may be an identifier: the first row of CSV without a header."""
    digits = sum(map(str.isdigit, name))
    return "@" in name or (digits >= _VALUE_DIGITS and digits * 4 >= len(name))


def shown_column(name: str) -> str:
    """The name of a column, unless it may be an identifier."""
    return f"(a name of {len(name)} characters)" if looks_like_value(name) else shown(name)


def looks_like_url(text: str) -> bool:
    """Whether it starts like a URL, well-formed or not."""
    return _URL.match(text) is not None


def without_secrets(text: str) -> str:
    """A path as it is; a URL without user, password and options, whatever characters they have."""
    start = _URL.match(text)
    if not start:
        return text
    # A password may have any of / ? and @ itself.
    before, at, rest = text[start.end() :].rpartition("@")
    place = (rest if at else before + rest).partition("?")[0].strip("/ ")
    return f"{start[1].lower()}://{place}"


def scrubbed(message: str, urls: list[str]) -> str:
    """A message without what is secret in these URLs, wherever others have put it."""
    for url in urls:
        if looks_like_url(url):
            secret = url.strip()
            for part in (url, secret, repr(url)[1:-1], secret.partition(":")[2]):
                message = message.replace(part, without_secrets(url))
    return message
