"""The architecture page is what the code is, and says what is there."""

import re
from pathlib import Path

from bookbuild.architecture import PACKAGES, PAGE, imported, page
from bookbuild.project import load_project

ROOT = Path(__file__).resolve().parents[2]
TEXT = page(ROOT)


def test_the_page_is_not_behind_the_code():
    assert (ROOT / PAGE).read_text(encoding="utf-8") == TEXT, "run make architecture"


def test_it_has_every_module_with_a_sentence_and_every_chapter_with_code():
    rows = dict(re.findall(r"^\| ([\w.]+) \| ([^|]*) \|", TEXT, re.MULTILINE))
    for package in PACKAGES:
        for path in (ROOT / "code" / package).glob("*.py"):
            if path.stem != "__init__":
                assert rows[path.stem].strip(), path.name
    for chapter in load_project(ROOT).chapters:
        if (ROOT / "_freeze" / chapter.path.removesuffix(".qmd")).is_dir():
            assert f"| {chapter.name} | " in TEXT


def test_who_imports_whom_is_as_decided():
    edges = set(re.findall(r"^  (\w+) --> (\w+)$", TEXT, re.MULTILINE))
    assert edges == {("chapters", "measured"), ("chapters", "ledger"), ("bookbuild", "ledger")}


def test_an_import_that_is_not_allowed_would_show(tmp_path):
    for name, text in {
        "measured/one.py": '"""One."""\n\n\ndef f():\n    from ledger import check\n',
        "ledger/two.py": '"""Two: a thing. And more."""\nimport json\n',
    }.items():
        (tmp_path / "code" / name).parent.mkdir(parents=True)
        (tmp_path / "code" / name).write_text(text)
    text = page(tmp_path)
    assert "  measured --> ledger\n" in text
    assert "| two | Two: a thing |  |" in text


def test_imports_are_found_wherever_they_stand():
    import ast

    tree = ast.parse("import ledger.entries\n\ndef f():\n    from bookbuild import plan, os\n")
    assert imported(tree) == {"ledger.entries", "bookbuild", "bookbuild.plan", "bookbuild.os"}
