"""The page about Spark is true: its Python runs, in its order, in a process of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path

from spark_session import environment

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "spark.md"
_BLOCK = re.compile(r"^```python[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_page_runs(tmp_path: Path) -> None:
    program = "\n".join(_BLOCK.findall(PAGE.read_text(encoding="utf-8")))
    assert program.count("idmatch") > 5
    (tmp_path / "page.py").write_text(program, encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "page.py"],
        cwd=tmp_path,
        env=os.environ | environment(),
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
