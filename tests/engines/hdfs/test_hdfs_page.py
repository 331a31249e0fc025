"""The page about HDFS is true: its Python and its commands run, in their order."""

from pathlib import Path

from hdfs_cluster import Folder
from idmatch._lab import Hdfs
from page_blocks import run_blocks

pytest_plugins = ["hdfs_cluster"]


def test_the_page_runs(hdfs: Hdfs, folder: Folder, tmp_path: Path) -> None:
    run_blocks("hdfs.md", "HDFS", ["python", "bash"], tmp_path)
    assert folder.files.exists("/results/cookies.csv")
