"""Makes names and other text from outside printable. Imports nothing of idmatch.

Invariant: `escaped` and `shown` return no control characters.
"""

_MOST_CHARACTERS = 80
# One more than the digits of a year.
_VALUE_DIGITS = 5


def escaped(text: str) -> str:
    """The text with escapes in place of characters that do not print, such as ESC and line ends."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shown(text: str) -> str:
    """A name, cut to 80 characters and then escaped."""
    cut = text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 1] + "…"
    return escaped(cut)


def looks_like_value(name: str) -> bool:
    """Whether a column's name may be an identifier, from the first row of CSV without a header."""
    digits = sum(map(str.isdigit, name))
    return "@" in name or (digits >= _VALUE_DIGITS and digits * 4 >= len(name))


def shown_column(name: str) -> str:
    """The name of a column, unless it may be an identifier."""
    return f"(a name of {len(name)} characters)" if looks_like_value(name) else shown(name)
