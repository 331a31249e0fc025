"""Checks that no files and no folders import each other in a circle, in crates and package.

Imports of parent and child count, those for type checking too. Lines that only declare or re-export
(`mod`, `pub use`, imports of an `__init__.py`) do not: a name belongs to the file that defines it.
"""

import ast
import os
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

Name = tuple[str, ...]
Graph = dict[Path, set[Path]]

_TESTS = re.compile(r"^#\[cfg\(test\)\]\nmod \w+ \{.*", re.MULTILINE | re.DOTALL)
_NOISE = re.compile(r'//[^\n]*|"(?:\\.|[^"\\])*"', re.DOTALL)
_USE = re.compile(r"^[ \t]*(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);", re.MULTILINE)
_GROUP = re.compile(r"([\w:]*)\{([^{}]*)\}")
_INLINE = re.compile(r"\b([a-z_]\w*(?:::\w+)+)")


class Package:
    """The modules of a crate or a Python package, what they import and what they re-export."""

    def __init__(self, root: Path, suffix: str, inits: set[str]) -> None:
        self.root = root
        self.files: dict[Name, Path] = {}
        self.exports: dict[Name, dict[str, Name]] = defaultdict(dict)
        self.imports: dict[Name, list[Name]] = defaultdict(list)
        for file in sorted(root.rglob(f"*{suffix}")):
            parts = file.relative_to(root).with_suffix("").parts
            self.files[parts[:-1] if parts[-1] in inits else parts] = file

    def graph(self) -> Graph:
        """Which file imports from which."""
        found: Graph = defaultdict(set)
        for module, names in self.imports.items():
            targets = {self._defines(name) for name in names}
            found[self.files[module]] |= targets - {self.files[module]}
        return found

    def _defines(self, name: Name) -> Path:
        while True:
            end = next(n for n in range(len(name), -1, -1) if name[:n] in self.files)
            module, rest = name[:end], name[end:]
            if not rest or rest[0] not in self.exports[module]:
                return self.files[module]
            name = self.exports[module][rest[0]] + rest[1:]


def crate(root: Path) -> Package:
    """A crate, from the folder with its lib.rs."""
    package = Package(root, ".rs", {"mod", "lib", "main"})
    for module, file in package.files.items():
        code = _NOISE.sub("", _TESTS.sub("", file.read_text(encoding="utf-8")))
        local: dict[str, Name] = {}
        for is_public, tree in _USE.findall(code):
            for path, name in _flat(tree):
                if target := _absolute(package, module, local, path):
                    (package.exports[module] if is_public else local)[name] = target
        inline = (text.split("::") for text in _INLINE.findall(_USE.sub("", code)))
        used = (_absolute(package, module, local, tuple(path)) for path in inline)
        package.imports[module] = [*local.values(), *filter(None, used)]
    return package


def _flat(tree: str) -> Iterator[tuple[Name, str]]:
    """The paths of a use tree, each with the name that it gets."""
    while "{" in tree:
        tree = _GROUP.sub(lambda found: ",".join(_listed(found[2], found[1])), tree)
    for item in _listed(tree):
        path, _, alias = item.partition(" as ")
        parts = tuple(path.removesuffix("::self").split("::"))
        yield parts, alias or parts[-1]


def _listed(items: str, prefix: str = "") -> list[str]:
    return [prefix + item.strip() for item in items.split(",") if item.strip()]


def _absolute(package: Package, module: Name, local: dict[str, Name], path: Name) -> Name | None:
    """A path from the crate's root; None when it leads to another crate."""
    first, rest = path[0], path[1:]
    if first == "crate":
        return rest
    if first == "super":
        return _absolute(package, module[:-1], local, ("self", *rest))
    if first == "self":
        return _absolute(package, module, local, rest) if rest[:1] == ("super",) else module + rest
    if (*module, first) in package.files:
        return module + path
    return local[first] + rest if first in local else None


def python(root: Path) -> Package:
    """A Python package, from its folder."""
    package = Package(root, ".py", {"__init__"})
    for module, file in package.files.items():
        is_init = file.name == "__init__.py"
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for node in (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)):
            start = tuple(node.module.split(".")) if node.module else ()
            if node.level:
                inside = (root.name, *module)
                start = inside[: len(inside) + is_init - node.level] + start
            for name in node.names if start[0] == root.name else ():
                path = (*start[1:], name.name)
                if is_init and node in tree.body:
                    package.exports[module][name.asname or name.name] = path
                else:
                    package.imports[module].append(path)
    return package


def circles(graph: Graph, root: Path) -> set[str]:
    """The circles between files, and between what lies directly in each folder."""
    levels: dict[Path, Graph] = defaultdict(lambda: defaultdict(set))
    for start, targets in graph.items():
        for target in targets:
            folder = Path(os.path.commonpath([start, target]))
            ours, theirs = (folder / p.relative_to(folder).parts[0] for p in (start, target))
            levels[folder][ours].add(theirs)
    found = set()
    for level in (graph, *levels.values()):
        try:
            TopologicalSorter(level).prepare()
        except CycleError as error:
            found.add(" <- ".join(str(path.relative_to(root)) for path in error.args[1]))
    return found


def main() -> int:
    """Prints circles; 1 when there is one, or no import at all in a package."""
    packages = [*map(crate, sorted(Path("crates").glob("*/src"))), python(Path("python/idmatch"))]
    found = []
    for package in packages:
        graph = package.graph()
        faults = circles(graph, package.root) if graph else {"no import was found"}
        found += [f"{package.root}: {fault}" for fault in faults]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
