"""Tables of HiveServer2 by their addresses. Imported only where an address names one.

`_place.py` reads addresses, `_server.py` talks, through impyla; `_tables.py` asks where a table's
files are, and `_values.py` turns rows into Arrow. Must not know what rows are for.
"""

from ._place import Place, literal, place_of, quoted
from ._server import Refused, Server
from ._tables import Folder, Table, Unfit, clause, folders, partitions, table_of
from ._values import Column, schema_of

__all__ = [
    "Column",
    "Folder",
    "Place",
    "Refused",
    "Server",
    "Table",
    "Unfit",
    "clause",
    "folders",
    "literal",
    "partitions",
    "place_of",
    "quoted",
    "schema_of",
    "table_of",
]
