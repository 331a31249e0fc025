"""Finds Java on this machine, and fetches the jars of servers with Maven, once for all labs."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Collection
from importlib import resources
from pathlib import Path

from idmatch._errors import Error

VERSION = "5.0.9"
"""The version of Apache Cassandra."""

_JAVA_VERSIONS = (11, 17)
"""The Java versions that Cassandra 5.0 supports."""

_INSTALL_JAVA = "install a Java 17 runtime (Debian: apt install openjdk-17-jre-headless)"


def cache() -> Path:
    """The folder for fetched jars and, by default, for labs."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "idmatch"


def java(program: str = f"Cassandra {VERSION}", versions: Collection[int] = _JAVA_VERSIONS) -> str:
    """The Java of JAVA_HOME, else of PATH, for a program that runs on these versions of Java.

    Raises Error for a missing Java or a wrong version.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if found is None:
        place = f"JAVA_HOME ({home})" if home else "PATH"
        raise Error(f"the lab needs Java, and there is none in {place}; {_INSTALL_JAVA}")
    shown = subprocess.run([found, "-version"], capture_output=True, text=True).stderr
    version = re.search(r'version "(\d+)', shown)
    if version is None or int(version[1]) not in versions:
        which = " or ".join(map(str, versions))
        number = version[1] if version else "of an unknown version"
        raise Error(
            f"{program} runs on Java {which}, and {found} is {number}; {_INSTALL_JAVA} "
            "or set JAVA_HOME to one"
        )
    return found


def jars() -> Path:
    """The folder with the jars of Cassandra; fetches them (about 70 MB) if they are missing.

    Raises Error when Maven is missing or fails.
    """
    return fetched("Cassandra", VERSION, "pom.xml")


def fetched(program: str, version: str, pom: str) -> Path:
    """The folder with the jars that a pom of this package names; fetches them if it is missing.

    The pom finds the version in a property such as `cassandra.version`. Raises Error when Maven is
    missing or fails.
    """
    name = program.lower()
    folder = cache() / f"{name}-{version}"
    if folder.is_dir():
        return folder
    maven = shutil.which("mvn")
    if maven is None:
        raise Error(
            f"the lab fetches {program} with Maven, and there is no mvn in PATH; "
            "install it (Debian: apt install maven)"
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="fetching-") as scratch:
        file = Path(scratch, "pom.xml")
        file.write_bytes(resources.files(__package__).joinpath(pom).read_bytes())
        jars = Path(scratch, "jars")
        goal = [
            "dependency:copy-dependencies",
            f"-D{name}.version={version}",
            f"-DoutputDirectory={jars}",
        ]
        command = [maven, "--batch-mode", "--quiet", "--file", str(file), *goal]
        ran = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if ran.returncode != 0:
            why = " ".join((ran.stdout + ran.stderr).split())[-600:]
            raise Error(f"Maven could not fetch {program} {version}: {why}")
        # Another process may have fetched the jars meanwhile.
        if not folder.is_dir():
            jars.rename(folder)
    return folder
