"""Configuration files of Hadoop's programs."""

from collections.abc import Mapping
from xml.sax.saxutils import escape


def site(settings: Mapping[str, str]) -> str:
    """A configuration file with these properties."""
    properties = "\n".join(
        f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>"
        for name, value in settings.items()
    )
    return f"<configuration>\n{properties}\n</configuration>\n"
