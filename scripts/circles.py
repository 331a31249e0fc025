"""Checks that no files and no folders import each other in a circle, in crates and package.

Imports of parent and child count, and so do those for type checking and those inside functions.
Lines that only declare or re-export (`mod`, `pub use`, the imports of an `__init__.py`) do not: a
name counts as an import of the file that defines it.
"""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

Path_ = tuple[str, ...]
Edges = dict[Path, set[Path]]

_TESTS = re.compile(r"^#\[cfg\(test\)\]\nmod \w+ \{.*", re.MULTILINE | re.DOTALL)
_NOISE = re.compile(r'//[^\n]*|"(?:\\.|[^"\\])*"', re.DOTALL)
_USE = re.compile(r"^[ \t]*(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);", re.MULTILINE)
_INLINE = re.compile(r"\b([a-z_]\w*(?:::\w+)+)")


class Package:
    """The modules of a crate or a Python package: their files, and where names come from."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files: dict[Path_, Path] = {}
        self.exports: dict[Path_, dict[str, Path_]] = defaultdict(dict)
        self.imports: dict[Path_, list[Path_]] = defaultdict(list)

    def defines(self, path: Path_) -> Path | None:
        """The file that defines what a path names; None for other packages."""
        for _ in range(20):
            end = next((n for n in range(len(path), -1, -1) if path[:n] in self.files), 0)
            module, rest = path[:end], path[end:]
            target = self.exports[module].get(rest[0]) if rest else None
            if target is None:
                return self.files.get(module) if end or rest or not path else None
            path = target + rest[1:]
        return None

    def edges(self) -> Edges:
        """Which file imports from which."""
        found: Edges = defaultdict(set)
        for module, paths in self.imports.items():
            for path in paths:
                target = self.defines(path)
                if target and target != self.files[module]:
                    found[self.files[module]].add(target)
        return found


def crate(root: Path) -> Package:
    """A crate, from the folder with its lib.rs."""
    package = Package(root)
    for file in sorted(root.rglob("*.rs")):
        parts = file.relative_to(root).with_suffix("").parts
        package.files[parts[:-1] if parts[-1] in ("mod", "lib", "main") else parts] = file
    for module, file in package.files.items():
        code = _NOISE.sub("", _TESTS.sub("", file.read_text(encoding="utf-8")))
        names: dict[str, Path_] = {}
        for is_public, tree in _USE.findall(code):
            for path, name in _flat(tree):
                target = _absolute(package, module, names, path)
                if target is None:
                    continue
                (package.exports[module] if is_public else names)[name] = target
                if not is_public:
                    package.imports[module].append(target)
        for text in _INLINE.findall(_USE.sub("", code)):
            target = _absolute(package, module, names, tuple(text.split("::")))
            if target is not None:
                package.imports[module].append(target)
    return package


def _flat(tree: str, before: Path_ = ()) -> Iterator[tuple[Path_, str]]:
    """The paths of a use tree, each with the name that it gets."""
    head, brace, inner = tree.strip().partition("{")
    prefix = before + tuple(part.strip() for part in head.split("::") if part.strip())
    if not brace:
        last, _, alias = prefix[-1].partition(" as ")
        path = prefix[:-1] if last == "self" else (*prefix[:-1], last)
        yield path, alias or path[-1]
        return
    depth, item = 0, ""
    for letter in inner.rpartition("}")[0] + ",":
        depth += (letter == "{") - (letter == "}")
        if letter == "," and not depth:
            if item.strip():
                yield from _flat(item, prefix)
            item = ""
        else:
            item += letter


def _absolute(
    package: Package, module: Path_, names: dict[str, Path_], path: Path_
) -> Path_ | None:
    """A path from the crate's root; None when it leads to another crate."""
    first, rest = path[0], path[1:]
    if first == "crate":
        return rest
    if first in ("self", "super"):
        start = module[:-1] if first == "super" else module
        while rest and rest[0] == "super":
            start, rest = start[:-1], rest[1:]
        return start + rest
    if (*module, first) in package.files:
        return module + path
    return names[first] + rest if first in names else None


def python(root: Path) -> Package:
    """A Python package, from its folder."""
    package = Package(root)
    for file in sorted(root.rglob("*.py")):
        parts = file.relative_to(root).with_suffix("").parts
        package.files[parts[:-1] if parts[-1] == "__init__" else parts] = file
    for module, file in package.files.items():
        is_init = file.name == "__init__.py"
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if not isinstance(node, ast.ImportFrom):
                continue
            inner = tuple(node.module.split(".")) if node.module else ()
            if node.level:
                start = (*module, "")[: len(module) + is_init - node.level] + inner
            elif inner[0] == root.name:
                start = inner[1:]
            else:
                continue
            for name in node.names:
                path = (*start, name.name)
                if is_init and node in tree.body:
                    package.exports[module][name.asname or name.name] = path
                else:
                    package.imports[module].append(path)
    return package


def _circles(edges: dict[Path, set[Path]]) -> list[list[Path]]:
    """Groups of nodes that reach each other."""
    reached: Edges = {}
    for start in edges:
        seen: set[Path] = set()
        todo = [start]
        while todo:
            new = edges.get(todo.pop(), set()) - seen
            seen |= new
            todo.extend(new)
        reached[start] = seen
    groups = {
        tuple(sorted({node, *(n for n in seen if node in reached.get(n, ()))}))
        for node, seen in reached.items()
        if node in seen
    }
    return [list(group) for group in sorted(groups)]


def _by_folder(edges: Edges, root: Path) -> Iterator[Edges]:
    """For each folder, the edges between what lies directly in it."""
    levels: dict[Path, Edges] = defaultdict(lambda: defaultdict(set))
    for start, targets in edges.items():
        for target in targets:
            ours, theirs = start.relative_to(root).parts, target.relative_to(root).parts
            same = next(n for n, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b)
            folder = root.joinpath(*ours[:same])
            levels[folder][folder / ours[same]].add(folder / theirs[same])
    yield from levels.values()


def main() -> int:
    """Prints every circle; 1 when there is one."""
    packages = [crate(file.parent) for file in sorted(Path("crates").glob("*/src/lib.rs"))]
    packages.append(python(Path("python/idmatch")))
    found = 0
    for package in packages:
        edges = package.edges()
        groups = _circles(edges)
        for level in _by_folder(edges, package.root):
            groups += [group for group in _circles(level) if group not in groups]
        for group in groups:
            names = " ".join(str(path.relative_to(package.root)) for path in group)
            print(f"{package.root}: these import each other: {names}")
        found += len(groups)
    if not any(package.edges() for package in packages):
        print("no import was found: run this at the project's root")
        return 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
