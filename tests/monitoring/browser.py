"""Chromium, for tests of a page."""

import subprocess
from pathlib import Path

DARK = "--blink-settings=preferredColorScheme=0"
"""The option of one who prefers dark pages."""


def chromium(home: Path, address: str, *options: str) -> str:
    """What it prints for a page. Fails where a script of the page complains."""
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    command += ["--enable-logging=stderr", "--v=0", f"--user-data-dir={home / 'chromium'}"]
    done = subprocess.run(
        [*command, "--window-size=1280,1440", *options, address],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "CONSOLE" not in done.stderr, done.stderr
    return done.stdout
