"""Exactly what an edit touches is stale afterwards, with the reason."""

import json

import pytest

from bookbuild.build import plan
from bookbuild.freeze import Frozen, freeze, read
from bookbuild.project import load_project
from bookbuild.run import PieceResult, Run
from bookbuild.source import Cell, parse
from bookbuild.stale import judge

TEXT = (
    '---\ntitle: "T"\n---\n\n```{python}\n#| label: a\nx\n```\n\n```{python}\n#| label: b\nx\n```\n'
)
SETTINGS = {"_environment": "1", "the executor": "2"}


def frozen_of(text=TEXT, path="one.qmd", settings=SETTINGS) -> Frozen:
    source = parse(path, text)
    pieces = tuple(
        PieceResult(markdown="c") if isinstance(piece, Cell) else PieceResult()
        for piece in source.pieces
    )
    record = {
        "modules": {"code/measured/a.py": "1"}, "data": {}, "ledger": {}, "libraries": {},
        "environment": {}, "checked": {}, "said": [],
    }  # fmt: skip
    return freeze(Run(source, pieces, {}, record), {}, settings)


def verdict(frozen, text=TEXT, settings=SETTINGS, changed=()):
    found = judge(parse("one.qmd", text), frozen, settings, lambda then: list(changed))
    return found.state, found.reason


@pytest.mark.parametrize(
    ("frozen", "options", "expected"),
    [
        (frozen_of(), {}, ("fresh", "")),
        (None, {}, ("stale", "was never executed")),
        (None, {"text": "Only prose.\n"}, ("plain", "")),
        (frozen_of(path="two.qmd"), {}, ("stale", "its freeze is that of another chapter")),
        (
            frozen_of(),
            {"settings": {**SETTINGS, "_environment": "9"}},
            ("stale", "_environment changed"),
        ),
        (frozen_of(), {"settings": {"_environment": "1"}}, ("stale", "the executor changed")),
        (frozen_of(), {"settings": {**SETTINGS, "more": "1"}}, ("stale", "more changed")),
        (frozen_of(), {"changed": ["measured.a changed"]}, ("stale", "measured.a changed")),
        (
            frozen_of(),
            {"changed": ["measured.a changed", "numpy was 1, is 2"]},
            ("stale", "measured.a changed (and 1 more)"),
        ),
        (frozen_of(), {"text": TEXT + "\nMore.\n"}, ("prose", "its prose changed")),
        (frozen_of(), {"text": TEXT.replace("a\nx", "a\ny")}, ("stale", "cell a changed")),
        (frozen_of(), {"text": TEXT.replace(": b", ": new")}, ("stale", "cell new is new")),
        (frozen_of(), {"text": TEXT[: TEXT.rindex("```{")]}, ("stale", "cell b is gone")),
        (
            frozen_of(),
            {"text": TEXT.replace(": a", ": z").replace(": b", ": a").replace(": z", ": b")},
            ("stale", "its cells are in another order"),
        ),
        (
            frozen_of(),
            {"text": TEXT + "\n`{python} 1`\n"},
            ("stale", "an inline expression changed, or moved past a cell"),
        ),
    ],
)  # fmt: skip
def test_the_verdict_and_its_reason(frozen, options, expected):
    assert verdict(frozen, **options) == expected


def test_what_changed_is_asked_of_the_recorded_inputs():
    asked = []
    judge(parse("one.qmd", TEXT), frozen_of(), SETTINGS, lambda then: asked.append(then) or [])
    assert asked[0].modules == {"code/measured/a.py": "1"}


def states(root) -> dict[str, str]:
    """What `book stale` would say about the two executed chapters."""
    verdicts = plan(load_project(root)).verdicts
    return {v.source.path: v.reason if v.state == "stale" else v.state for v in verdicts[1:]}


def only(root, name, reason):
    """Whether chapter `name` is stale for `reason` and the other one is fresh."""
    expected = dict.fromkeys(("chapters/one.qmd", "chapters/two.qmd"), "fresh")
    return states(root) == expected | {f"chapters/{name}.qmd": reason}


def test_a_fresh_book_is_fresh_in_every_folder(executed):
    assert only(executed, "one", "fresh")


def test_a_comment_in_a_module_touches_only_the_chapters_that_import_it(executed, books):
    books.edit(executed / "code/measured/doubles.py", "def", "# A comment.\ndef")
    assert only(executed, "one", "measured.doubles changed")


def test_a_module_that_nobody_imports_touches_nobody(executed):
    (executed / "code/measured/never.py").write_text("changed")
    (executed / "code/measured/new.py").write_text("new")
    assert only(executed, "one", "fresh")


def test_a_removed_module_is_gone(executed):
    (executed / "code/measured/halves.py").unlink()
    assert only(executed, "two", "measured.halves is gone")


def test_a_data_file_touches_its_reader(executed):
    (executed / "media/data/half.txt").write_text("0.50\n")
    assert only(executed, "two", "media/data/half.txt changed")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("value = 0.5", "value = 0.50001"),
        ("tolerance = 1e-6", "tolerance = 1e-5"),
        ('statement = "Half of one"', 'statement = "A half"'),
        ('format = ".4f"', 'format = ".3f"'),
    ],
)
def test_an_edited_entry_touches_only_the_chapter_that_checks_it(executed, books, old, new):
    books.edit(executed / "ledger.toml", old, new)
    assert only(executed, "two", "ledger entry half changed")


def test_an_entry_that_two_chapters_show_touches_both(executed, books):
    books.edit(executed / "ledger.toml", '"Twice 21"', '"Two times 21"')
    assert set(states(executed).values()) == {"ledger entry twice changed"}


def test_comments_and_order_of_the_ledger_touch_nobody(executed, books):
    books.edit(executed / "ledger.toml", "# The numbers of a small book.\n", "# Numbers.\n\n")
    assert only(executed, "one", "fresh")


def test_another_locked_version_touches_the_chapters_that_used_the_library(executed):
    inputs = json.loads((executed / "_freeze/chapters/one/execute-results/inputs.json").read_text())
    libraries = {**inputs["libraries"], "ipykernel": "0.1"}
    lock = "".join(f"{name}=={version}\n" for name, version in libraries.items())
    (executed / "requirements.lock").write_text(lock)
    reason = f"ipykernel was {inputs['libraries']['ipykernel']}, is 0.1"
    assert set(states(executed).values()) == {reason}


def test_settings_of_all_kernels_touch_all_chapters(executed, books):
    (executed / "_environment").write_text("PYTHONHASHSEED=1\n")
    assert set(states(executed).values()) == {"_environment changed"}
    (executed / "_environment").write_text(books.files["_environment"])
    books.edit(executed / "_quarto.yml", "execute:", "format:\n  html:\n    fig-width: 3\nexecute:")
    assert set(states(executed).values()) == {"the figures' format in _quarto.yml changed"}


def test_a_changed_word_is_only_prose(executed, books):
    books.edit(executed / "chapters/one.qmd", "Between them.", "Amid them.")
    assert only(executed, "one", "prose")


def test_another_chapter_s_freeze_is_not_taken_for_its_own(executed):
    folder = executed / "_freeze/chapters"
    (folder / "one").rename(folder / "aside")
    (folder / "two").rename(folder / "one")
    (folder / "aside").rename(folder / "two")
    assert set(states(executed).values()) == {"its freeze is that of another chapter"}


def test_quarto_s_own_refreeze_is_noticed(executed):
    path = executed / "_freeze/chapters/one/execute-results/html.json"
    path.write_text(path.read_text().replace("42", "43"))
    assert only(executed, "one", "its html.json is not the one its inputs were recorded for")


def test_what_a_chapter_was_computed_from_is_complete(executed):
    inputs = read(executed / "_freeze/chapters/two").computed_from
    modules = [f"code/measured/{name}.py" for name in ("__init__", "halves")]
    assert list(inputs.modules) == modules
    assert list(inputs.data) == ["media/data/half.txt"]
    assert sorted(inputs.ledger) == ["half", "twice"]
    assert {"ipykernel", "ipython"} <= set(inputs.libraries)
