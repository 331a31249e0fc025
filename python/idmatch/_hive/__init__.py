"""Tables of HiveServer2 by their addresses. Imported only where an address names one.

`_place.py` reads addresses, `_server.py` talks, through impyla; `_tables.py` asks where a table's
files are, and `_values.py` turns rows into Arrow. Must not know what rows are for.
"""

from ._place import Place, literal, place_of, quoted
from ._server import Server, StatementError
from ._tables import Folder, Table, Unfit, clause, folder_name, folders, location_of, table_of
from ._values import Column, file_type_of, schema_of

__all__ = [
    "Column",
    "Folder",
    "Place",
    "Server",
    "StatementError",
    "Table",
    "Unfit",
    "clause",
    "file_type_of",
    "folder_name",
    "folders",
    "literal",
    "location_of",
    "place_of",
    "quoted",
    "schema_of",
    "table_of",
]
