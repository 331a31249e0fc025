"""The number of rows of files, without reading the rows."""

import math
from collections.abc import Sequence

from ._columnar import footer_rows
from ._files import File
from ._objects import ArrowObject
from ._source import Source, reading

# Bytes of a row of text: two identifiers and a date.
_ROW_BYTES = 64
# The same in a compressed file.
_COMPRESSED_ROW_BYTES = 16


def estimated_rows(sources: Sequence[Source]) -> int | None:
    """The rows of some files: as the footers of Parquet and ORC say, else by their bytes on disk.
    None if a source is no file, and would have to be read.

    Raises SourceError when a file cannot be read.
    """
    files = [source for source in sources if isinstance(source, File)]
    return sum(map(_rows, files)) if len(files) == len(sources) else None


def known_rows(sources: Sequence[Source]) -> int | None:
    """The rows of sources, as tables in memory and the footers of Parquet and ORC say.

    None if another source would have to be read.
    """
    rows = 0.0
    for source in sources:
        match source:
            case ArrowObject():
                rows += source.rows
            case File() if (kind := source.kind()) not in ("csv", "json"):
                with reading(source.name):
                    rows += footer_rows(kind, source.filesystem, source.path)
            case _:
                return None
    return int(rows) if math.isfinite(rows) else None


def _rows(file: File) -> int:
    with reading(file.name):
        kind, is_compressed = file.kind(), file.is_compressed()
        if kind in ("csv", "json"):
            size = file.filesystem.get_file_info(file.path).size or 0
            return size // (_COMPRESSED_ROW_BYTES if is_compressed else _ROW_BYTES) + 1
        return footer_rows(kind, file.filesystem, file.path)
