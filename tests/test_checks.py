"""The project's own checks find what they are there to find."""

from pathlib import Path

import circles
import commit_subject
import pytest
import tidy
import words


def write(root: Path, **files: str) -> Path:
    """Files below a folder; `__` in a name is a folder's slash, and the text says the suffix."""
    for name, text in files.items():
        path = root / f"{name.replace('__', '/')}.{'py' if 'import' in text else 'rs'}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def found_in_crate(root: Path) -> set[str]:
    return circles.circles(circles.crate(root).graph(), root)


def test_files_that_import_each_other_are_a_circle(tmp_path: Path) -> None:
    write(
        tmp_path,
        lib="mod a;\nmod b;\n",
        a="use crate::b::B;\npub struct A(B);\n",
        b="fn f(_: &super::a::A) {}\npub struct B;\n",
    )
    assert found_in_crate(tmp_path) == {"a.rs <- b.rs <- a.rs"}


def test_folders_that_import_each_other_are_a_circle(tmp_path: Path) -> None:
    write(
        tmp_path,
        lib="mod x;\nmod y;\n",
        x__mod="mod one;\nmod two;\npub use one::One;\npub use two::Two;\n",
        x__one="use crate::y::Y;\npub struct One(Y);\n",
        x__two="pub struct Two;\n",
        y="use crate::x::Two;\npub struct Y(Two);\n",
    )
    assert found_in_crate(tmp_path) == {"x <- y.rs <- x"}


def test_a_child_that_uses_its_parent_is_a_circle(tmp_path: Path) -> None:
    write(
        tmp_path,
        lib="mod x;\n",
        x__mod="mod one;\nuse one::One;\npub struct Shared(One);\n",
        x__one="use super::Shared;\npub struct One(Box<Shared>);\n",
    )
    assert found_in_crate(tmp_path) == {"x/mod.rs <- x/one.rs <- x/mod.rs"}


def test_reexports_tests_and_comments_are_no_circle(tmp_path: Path) -> None:
    write(
        tmp_path,
        lib="mod x;\n",
        x__mod="//! See one::One.\nmod one;\nmod two;\npub use one::One;\npub use two::Two;\n",
        x__one="use super::Two;\npub struct One(Two);\n",
        x__two="pub struct Two;\n#[cfg(test)]\nmod tests {\n    use super::super::One;\n}\n",
    )
    assert found_in_crate(tmp_path) == set()


def test_imports_for_type_checking_count(tmp_path: Path) -> None:
    root = write(
        tmp_path / "package",
        __init__="from ._a import A\n",
        _a="from ._b import B\nclass A: b: B\n",
        _b="def f() -> None:\n    from ._a import A\n",
    )
    graph = circles.python(root).graph()
    assert circles.circles(graph, root) == {"_a.py <- _b.py <- _a.py"}


def test_use_trees_are_flattened() -> None:
    tree = "crate::{a::{self, B as C, d::*}, e,\n}"
    assert list(circles._flat(tree)) == [
        (("crate", "a"), "a"),
        (("crate", "a", "B"), "C"),
        (("crate", "a", "d", "*"), "*"),
        (("crate", "e"), "e"),
    ]


def test_imports_by_a_name_that_is_put_together_are_refused(tmp_path: Path) -> None:
    hidden, plain = tmp_path / "hidden.py", tmp_path / "plain.py"
    hidden.write_text('"""A head."""\nimport_module' + '(f"{__package__}.x")\n')
    plain.write_text('"""A head."""\nimport_module("json")\n')
    assert [len(list(tidy._faults(file))) for file in (hidden, plain)] == [1, 0]


@pytest.mark.parametrize(
    "message",
    ["cql: retry on another node", "docs, spec: name the units\n\nBecause.\n", "Merge branch 'x'"],
)
def test_subjects_that_are_taken(message: str) -> None:
    assert commit_subject.fault(message) is None


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        ("Retry on another node", "must be"),
        ("cql: Retry on another node", "must be"),
        ("cql: retry on another node.", "must be"),
        (f"cql: {'x' * 70}", "has 75 characters"),
        ("cql: retry\nat once", "empty line"),
        ("", "must be"),
    ],
)
def test_subjects_that_are_refused(message: str, fault: str) -> None:
    assert fault in (commit_subject.fault(message) or "")


def test_private_words_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write(
        tmp_path,
        crates__tranche="struct GoneBefore;\nfn mend_it() {}\n",
        crates__b="pub(crate) async fn mend() {}\n",
        crates__c="import os\nmend = 1\n",
    )
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/words.txt").write_text("# A comment.\ncrates: mend gone_before tranche\n")
    assert words.main() == 1
    shown = [line.split(" is ")[0] for line in capsys.readouterr().out.splitlines()]
    assert shown == [
        "crates/b.rs: mend",
        "crates/c.py: mend",
        "crates/tranche.rs: GoneBefore",
        "crates/tranche.rs: tranche",
    ]
