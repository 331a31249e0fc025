"""The folder of a store's rejects: STORE.rejects/, or for servers one in the user's state folder.

It is for its owner only. Files are named by table, time and process. A new file removes files that
are older than 30 days.
"""

import os
import re
import time

from ._beside import beside, make, of_user, remove_old
from ._core import Table
from ._errors import IoError
from ._outputs import PRIVATE
from ._text import escaped

_KEPT_DAYS = 30
_NAME = re.compile(r".+-\d{8}T\d{6}Z-\d+(-\d+)?\.csv")


def new_file(table: Table) -> tuple[str, int]:
    """Makes a file for rejects of a table; returns its path and its file descriptor.

    Raises IoError.
    """
    folder = of_user("rejects") if table.is_remote else beside(table.store_path, "rejects")
    try:
        make(folder)
        remove_old(folder, _NAME, _KEPT_DAYS)
        at = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        name, number = f"{table.name}-{at}-{os.getpid()}", 1
        while True:
            path = folder / (f"{name}.csv" if number == 1 else f"{name}-{number}.csv")
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            try:
                return str(path), os.open(path, flags, PRIVATE)
            except FileExistsError:
                number += 1
    except OSError as error:
        raise IoError(
            f"cannot write rejected rows to {escaped(str(folder))}: {error.strerror}; name a file "
            "for them: --rejects, in Python rejects="
        ) from error
