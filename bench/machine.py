"""What the page says about the machine, and whether a step's files fit on its disk."""

from __future__ import annotations

import os
import platform
import re
import shutil
from pathlib import Path

from progress import log
from units import show_bytes


def describe(directory: Path) -> dict[str, object]:
    """Processor, memory, disk and system."""
    processor = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    release = Path("/etc/os-release")
    system = (
        re.search(r'PRETTY_NAME="?([^"\n]+)', release.read_text()) if release.exists() else None
    )
    return {
        "processor": processor.group(1) if processor else platform.processor(),
        "processors": os.cpu_count(),
        "memory_bytes": memory_bytes(),
        "disk_bytes": shutil.disk_usage(directory).total,
        "system": system.group(1) if system else platform.system(),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def memory_bytes() -> int:
    """The memory of the machine; 0 where Linux does not say."""
    found = re.search(r"MemTotal:\s*(\d+)", Path("/proc/meminfo").read_text())
    return int(found.group(1)) * 1024 if found else 0


def free_bytes(directory: Path) -> int:
    """Free bytes of the file system of `directory`."""
    return shutil.disk_usage(directory).free


def has_disk(directory: Path, needed: int) -> bool:
    """Whether so many bytes are free; says so where they are not."""
    free = free_bytes(directory)
    if free < needed:
        log(f"{show_bytes(needed)} of disk are needed at {directory}, {show_bytes(free)} are free")
    return free >= needed
