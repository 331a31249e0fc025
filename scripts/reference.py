"""Writes the pages of the reference that are made from the code: the API and the help of commands.

python scripts/reference.py           writes them
python scripts/reference.py --check   fails where a page is not what would be written
"""

import argparse
import inspect
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import idmatch
from idmatch._cli import _commands
from idmatch._cli._parser import parser

PAGES = Path(__file__).parent.parent / "docs" / "reference"
_PRIVATE_MODULE = re.compile(r"\b(?:(?:idmatch|collections|datetime)\.(?:_\w+\.|abc\.)?|_\w+\.)")
_QUOTED_TYPE = re.compile(r"(: |-> )(['\"])(.*?)\2(?=$| =|,|\))")
_LINE = 96
_FIELD_DOC = re.compile(r'^    (\w+): [^\n]*\n    """(.*?)"""', re.MULTILINE | re.DOTALL)


def main() -> int:
    """Writes the pages, or names those that differ."""
    # Help is cut at the width of the terminal.
    os.environ["COLUMNS"] = "100"
    pages = {"api.md": "\n".join(_api()), "command-help.md": "\n".join(_help())}
    differ = [name for name, text in pages.items() if not _is_there(PAGES / name, text)]
    if "--check" in sys.argv[1:]:
        for name in differ:
            print(f"docs/reference/{name} is old; write it with scripts/reference.py")
        return 1 if differ else 0
    for name in differ:
        (PAGES / name).write_text(pages[name])
    return 0


def _is_there(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() == text


def _api() -> Iterator[str]:
    yield "# API\n"
    yield "Every public name with its signature and docstring, written by `scripts/reference.py`."
    yield "[Python API](python.md) has examples.\n"
    for name in idmatch.__all__:
        found = getattr(idmatch, name)
        if inspect.isclass(found):
            yield from _class(name, found)
        elif callable(found):
            yield f"## {name}\n\n{_call(name, found)}\n\n{_doc(found)}\n"


def _class(name: str, found: type) -> Iterator[str]:
    yield f"## {name}\n\n{_doc(found)}\n"
    described = dict(_FIELD_DOC.findall(inspect.getsource(found)))
    fields = getattr(found, "_fields", ())
    if shown := fields or described:
        for field in shown:
            yield f"- `{field}`: {_one_line(described.get(field, ''))}"
        yield ""
    for member, value in _members(found):
        if isinstance(value, property):
            yield f"### {name}.{member}\n\n{_doc(value)}\n"
        elif not (fields and member in fields):
            function = inspect.unwrap(getattr(found, member))
            yield f"### {name}.{member}()\n\n{_call(member, function)}\n\n{_doc(function)}\n"


def _members(found: type) -> Iterator[tuple[str, object]]:
    """Public members that are idmatch's own, those of private bases among them, in their order."""
    seen = set[str]()
    for base in found.__mro__:
        if not base.__module__.startswith("idmatch"):
            continue
        if base is not found and base.__name__ in idmatch.__all__:
            # It has a section of its own.
            continue
        for member, value in vars(base).items():
            is_shown = isinstance(value, property) or inspect.isroutine(value)
            if member.startswith("_") or member in seen or not is_shown:
                continue
            if getattr(value, "__doc__", None):
                seen.add(member)
                yield member, value


def _call(name: str, function: object) -> str:
    """How it is called, a line for each argument where there are many."""
    assert callable(function)
    signature = inspect.signature(function)
    kept = [p for name, p in signature.parameters.items() if name not in ("self", "cls")]
    shown = name + _plain(str(signature.replace(parameters=kept)))
    if len(shown) > _LINE:
        parts = str(signature.replace(parameters=[])).removeprefix("()")
        lines = [f"    {_plain(str(parameter))}," for parameter in kept]
        if any(parameter.kind is parameter.KEYWORD_ONLY for parameter in kept):
            first = [p.kind is p.KEYWORD_ONLY for p in kept].index(True)
            lines.insert(first, "    *,")
        shown = "\n".join([f"{name}(", *lines, f"){_plain(parts)}"])
    return f"```text\n{shown}\n```"


def _plain(signature: str) -> str:
    """Types without their modules, and without quotes."""
    return _PRIVATE_MODULE.sub("", _QUOTED_TYPE.sub(r"\1\3", signature).replace("'", '"'))


def _doc(found: object) -> str:
    """Its docstring. Code spans, every other part between backticks, need no escapes."""
    parts = (inspect.getdoc(found) or "").split("`")
    assert len(parts) % 2, f"a backtick is missing: {found}"
    parts[::2] = [part.replace("<", "&lt;") for part in parts[::2]]
    return "`".join(parts)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _help() -> Iterator[str]:
    yield "# Help of commands\n"
    yield "What `idmatch COMMAND --help` prints, written by `scripts/reference.py`."
    yield "[Commands](commands.md) has explanations and examples.\n"
    root = parser(_commands.COMMANDS)
    (subparsers,) = (
        action for action in root._actions if hasattr(action, "choices") and action.choices
    )
    for name, command in dict(subparsers.choices or {}).items():
        yield f"## {name}\n\n```text\n{command.format_help().rstrip()}\n```\n"
        for action in command._actions:
            if isinstance(action, argparse._SubParsersAction):
                for below, parsed in action.choices.items():
                    yield f"### {name} {below}\n\n```text\n{parsed.format_help().rstrip()}\n```\n"


if __name__ == "__main__":
    sys.exit(main())
