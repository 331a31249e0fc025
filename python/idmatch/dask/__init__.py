"""Dask: match data frames, and read and load tables, with the workers of a cluster.

    import dask.dataframe as dd
    import idmatch.dask

    population = dd.read_parquet("donors/")
    matched = idmatch.dask.match(population, "./store", "appnexus", column="cookie")
    matched.to_parquet("matched/")

Each worker process opens the store once, by its address. A store in a directory is read at a
checkpoint of the job: all tasks see one version, and a task that runs twice answers alike. So the
directory must be at the same path for all workers. On servers rows are read as they are when each
is read. docs/how-to/dask.md has an example.

Importing this raises MissingExtra without Dask's data frames.
"""

from idmatch._errors import MissingExtra

try:
    import dask.dataframe  # noqa: F401
except ImportError as error:
    raise MissingExtra(
        f"idmatch.dask needs Dask's data frames ({error}); "
        "install idmatch with its extra 'dask': in a checkout, pip install '.[dask]'"
    ) from error

from ._load import Loaded, load
from ._match import match
from ._read import read
from ._sources import read_source

__all__ = ["Loaded", "load", "match", "read", "read_source"]
