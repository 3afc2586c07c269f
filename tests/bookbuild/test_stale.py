"""Exactly what an edit touches is stale afterwards, with the reason."""

import json
import os
import resource
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bookbuild.build import plan
from bookbuild.freeze import Frozen, _json, _seal, _sha256, freeze, read
from bookbuild.project import load_project
from bookbuild.run import PieceResult, Run
from bookbuild.source import Cell, parse
from bookbuild.stale import judge, settings_of
from ledger.entries import load_ledger
from ledger.inputs import changes, digests, file_digest

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


def test_the_python_that_would_execute_counts_where_it_is_known(executed):
    then = read(executed / "_freeze/chapters/one").computed_from
    now = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert then.python == now
    older = replace(then, python="3.2")
    assert changes(older, executed, then.ledger, None) == [f"Python was 3.2, is {now}"]
    assert changes(older, executed, then.ledger, None, python="") == []
    assert changes(replace(then, python=""), executed, then.ledger, None) == []


# Deciding costs next to nothing.

# Times Python's own start-up, which takes 10 to 15 ms. Measured: 23 for the command, 17 for the
# hook. A heavy library among the imports would show: Keras alone takes a hundred times as long.
AT_MOST = 35


def seconds_of(*command, **options) -> float:
    """Processor time of one run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, capture_output=True, **options)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def starts_of_python(*command, **options) -> float:
    """How many starts of Python a command takes, at the best of seven times.

    Each run stands beside a start of its own: two threads of one core slow each other down, and
    whether a neighbour is busy changes from second to second.
    """
    start = (sys.executable, "-c", "pass")
    return min(seconds_of(*command, **options) / seconds_of(*start) for _ in range(7))


def as_if_executed(root):
    """Seal the committed results to today's text, code and ledger: every file must be looked at."""
    ledger = digests(load_ledger(root / "ledger.toml").values())
    for path in root.glob("_freeze/**/inputs.json"):
        frozen = read(path.parents[1])
        source = (root / frozen.numbers["chapter"]).read_text(encoding="utf-8")
        html = _json(frozen.html | {"hash": parse("x.qmd", source).md5})
        path.with_name("html.json").write_bytes(html)
        modules = [name for name in frozen.inputs["modules"] if (root / name).is_file()]
        inputs = frozen.inputs | {
            "freeze": _sha256(html),
            "settings": settings_of(load_project(root)),
            "modules": {name: file_digest(root / name) for name in modules},
            "ledger": {id: ledger[id] for id in frozen.inputs["ledger"] if id in ledger},
        }
        path.write_bytes(_json(inputs | {"seal": _seal(inputs)}) + b"\n")


def test_deciding_about_the_whole_book_takes_as_long_as_a_few_starts_of_python(tmp_path):
    book = Path(__file__).resolve().parents[2]
    code = book / "code"
    root = tmp_path / "book"
    for name in ("_freeze", "chapters", "code/measured", "code/ledger", "media/data"):
        shutil.copytree(book / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("_quarto.yml", "_environment", "index.qmd", "ledger.toml", "requirements.lock"):
        shutil.copy(book / name, root / name)
    as_if_executed(root)
    (root / ".book").mkdir()  # every build leaves a note there of what it has read
    files = [str(path.relative_to(root)) for path in sorted(root.glob("chapters/*.qmd"))]
    environment = {
        **os.environ,
        "PYTHONPATH": str(code),
        "PYTHONDONTWRITEBYTECODE": "",  # as users have it: compiled once
        "QUARTO_PROJECT_DIR": str(root),
        "QUARTO_PROJECT_INPUT_FILES": "\n".join(files),
        "QUARTO_PROJECT_RENDER_ALL": "1",
    }
    book = [sys.executable, "-c", "from bookbuild.cli import main; main()", "stale", "--json"]
    verdicts = json.loads(
        subprocess.run(book, cwd=root, env=environment, capture_output=True).stdout
    )
    assert {state for state, _ in verdicts.values()} == {"fresh", "plain"}
    stale = starts_of_python(*book, cwd=root, env=environment)
    hook = code / "bookbuild/hooks/pre_render.py"
    hooked = starts_of_python(sys.executable, "-I", "-S", hook, cwd=root, env=environment)
    print(f"stale {stale:.1f} starts of Python, hook {hooked:.1f}")
    assert stale < AT_MOST
    assert hooked < AT_MOST
