"""The page about HDFS is true: its Python and its commands run, in their order."""

import os
import re
import subprocess
import sys
from pathlib import Path

from hdfs_cluster import Folder
from idmatch._lab import Hdfs

pytest_plugins = ["hdfs_cluster"]

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "hdfs.md"
_BLOCK = re.compile(r"^```(python|bash) no-run: needs HDFS\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_page_runs(hdfs: Hdfs, folder: Folder, tmp_path: Path) -> None:
    found = _BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert [language for language, _ in found] == ["python", "bash"]
    command = tmp_path / "bin" / "idmatch"
    command.parent.mkdir()
    command.write_text(f"#!{sys.executable}\nfrom idmatch._cli import run\nrun()\n")
    command.chmod(0o755)
    for language, block in found:
        program = [sys.executable, "-c"] if language == "python" else ["bash", "-ec"]
        ran = subprocess.run(
            [*program, block],
            cwd=tmp_path,
            env=os.environ | {"PATH": f"{command.parent}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
        )
        assert ran.returncode == 0, ran.stderr
    assert folder.files.exists("/results/cookies.csv")
