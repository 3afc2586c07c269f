"""The freeze: nothing in it can be changed unseen, and prose is woven around old outputs."""

import json
import random
import re
import shutil
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bookbuild.execute import execute, kernel_environment
from bookbuild.freeze import Frozen, folder_of, freeze, read, why_unusable
from bookbuild.project import load_project
from bookbuild.run import PieceResult, Run
from bookbuild.source import Cell, parse
from bookbuild.stale import settings_of
from bookbuild.weave import weave
from ledger.entries import Entry, load_ledger

timeless = settings(deadline=None)  # a busy machine is not a failure

TEXT = """\
---
title: "T"
---

First.

```{python}
#| label: a
x = 1
```

Between `{python} say("said")` and `{python} count()`.

```{python}
#| label: b
x
```

```{python}
#| label: c
x
```

`{python} say("said")`, `{python} say("half")`, `{python} count()`, `{python} count()`.
"""
RECORD = {
    "modules": {"code/measured/masks.py": "1"},
    "data": {},
    "ledger": {"half": "4", "said": "3"},
    "libraries": {"numpy": "2.4.6"},
    "environment": {"python": "3.11"},
    "checked": {"half": 0.5},
    "said": ["half", "said"],
}
HALF = Entry("half", "Half", 0.5, 0.25, "r", "s", ".2f")


def a_run(text=TEXT, **record):
    """A run in which `count()` gives 1, 2, 3 and `say` its id in capitals. No kernel."""
    source = parse("chapters/one.qmd", text)
    pieces, count = [], 0
    for piece in source.pieces:
        if isinstance(piece, Cell):
            markdown = f"::: {{#{piece.label} .cell}}\n{piece.code} ä\n:::\n\n"
            pieces.append(PieceResult(markdown=markdown))
            continue
        values = []
        for inline in piece.inlines:
            count += inline.expression == "count()"
            said = re.fullmatch(r'say\("(.*)"\)', inline.expression)
            values.append(f"[{said[1].upper()}]" if said else str(count))
        pieces.append(PieceResult(inlines=tuple(values)))
    return Run(source, tuple(pieces), {"a-output-1.svg": b"<svg/>"}, RECORD | record, 1.5)


def frozen(text=TEXT, **record):
    return freeze(a_run(text, **record), {"half": HALF}, {"_environment": "9"})


def test_the_files_of_a_freeze():
    made = frozen()
    assert list(made.files) == [
        "execute-results/html.json",
        "execute-results/inputs.json",
        "execute-results/numbers.json",
        "figure-html/a-output-1.svg",
    ]
    html = made.files["execute-results/html.json"].decode()
    assert html.startswith('{\n  "hash": "') and html.endswith('"includes": {}\n  }\n}')
    assert list(made.html["result"]) == ["engine", "markdown", "supporting", "filters", "includes"]
    assert made.html["result"]["supporting"] == ["one_files"]
    assert "ä" in html  # as it is, not escaped
    assert made.hash == parse("x", TEXT).md5
    assert why_unusable(made) is None
    assert folder_of("chapters/one.qmd") == "_freeze/chapters/one"


def test_the_markdown_by_hand():
    assert frozen().markdown == (
        '---\ntitle: "T"\n---\n\nFirst.\n\n'
        "::: {#a .cell}\nx = 1 ä\n:::\n\n\n"
        "Between [SAID] and 1.\n\n"
        "::: {#b .cell}\nx ä\n:::\n\n\n"
        "::: {#c .cell}\nx ä\n:::\n\n\n"
        "[SAID], [HALF], 2, 3.\n\n"
    )


def test_the_numbers_of_a_chapter():
    assert frozen(checked={"half": 0.625}).numbers["numbers"] == [
        {
            "id": "half", "cell": "", "statement": "Half", "shown": "0.62", "expected": "0.50",
            "tolerance": "0.25", "reason": "r", "source": "s", "value": 0.625, "deviation": 0.5,
        }
    ]  # fmt: skip


def test_a_whole_number_s_mean_can_be_frozen_in_the_format_of_counts():
    entry = replace(HALF, value=42, tolerance=1.0, format=",d")
    made = freeze(a_run(checked={"half": 42.25}), {"half": entry}, {})
    assert made.numbers["numbers"][0]["shown"] == "42"


def test_numbers_are_json_that_other_programs_read():
    values = [float("nan"), float("inf"), 1.0]
    entry = replace(HALF, value=values, tolerance=0.0)
    made = freeze(a_run(checked={"half": values}), {"half": entry}, {})

    def refuse(word):
        raise AssertionError(word)

    content = json.loads(made.files["execute-results/numbers.json"], parse_constant=refuse)
    assert content["numbers"][0]["value"] == ["NaN", "∞", 1.0]
    assert content["numbers"][0]["deviation"] is None


def swapped(made, *names):
    other = frozen(TEXT.replace("x = 1", "x = 2"))
    return {**made.files, **{name: other.files[name] for name in names}}


def changed(made, name, old, new):
    content = made.files[name]
    assert old in content
    return {**made.files, name: content.replace(old, new, 1)}


HTML, INPUTS, NUMBERS = (f"execute-results/{name}.json" for name in ("html", "inputs", "numbers"))
FIGURE = "figure-html/a-output-1.svg"
NOT_THE_ONE = "its html.json is not the one its inputs were recorded for"
TAMPERED = {
    "html cut short": (
        lambda f: {**f.files, HTML: f.files[HTML][:-9]},
        "its html.json is not reada",
    ),
    "inputs cut short": (lambda f: {**f.files, INPUTS: f.files[INPUTS][:-9]}, "its inputs.json is"),
    "numbers cut off": (lambda f: {**f.files, NUMBERS: b""}, "its numbers.json is empty"),
    "brackets without end": (
        lambda f: {**f.files, NUMBERS: b"[" * 100_000},
        "its numbers.json is not readable",
    ),
    "numbers are no text": (lambda f: {**f.files, NUMBERS: b"\xff\x00"}, "its numbers.json is not"),
    "inputs are a list": (lambda f: {**f.files, INPUTS: b"[]"}, "its inputs.json is not readable"),
    "html missing": (lambda f: without(f, HTML), "was never executed"),
    "inputs missing": (lambda f: without(f, INPUTS), "its inputs.json is missing"),
    "numbers missing": (lambda f: without(f, NUMBERS), "its numbers.json is missing"),
    "html edited": (lambda f: changed(f, HTML, b"[HALF]", b"[half]"), NOT_THE_ONE),
    "hash edited": (lambda f: changed(f, HTML, f.hash.encode(), b"0" * 32), NOT_THE_ONE),
    "numbers edited": (
        lambda f: changed(f, NUMBERS, b"0.5", b"0.6"),
        "its numbers.json was changed",
    ),
    "a module's hash edited": (
        lambda f: changed(f, INPUTS, b'masks.py": "1"', b'masks.py": "2"'),
        "its inputs.json was changed by hand",
    ),
    "the seal edited": (
        lambda f: changed(f, INPUTS, f.inputs["seal"].encode(), b"0" * 64),
        "its inputs.json was changed by hand",
    ),
    "the seal removed": (
        lambda f: {**f.files, INPUTS: json.dumps({**f.inputs, "seal": None}).encode()},
        "its inputs.json was changed by hand",
    ),
    "html of another run": (lambda f: swapped(f, HTML), NOT_THE_ONE),
    "inputs of another run": (lambda f: swapped(f, INPUTS), NOT_THE_ONE),
    "numbers of another run": (
        lambda f: swapped(f, NUMBERS),
        "its numbers.json was changed by hand",
    ),
    "html of a later text, as Quarto writes it": (
        lambda f: {**f.files, HTML: frozen(TEXT + "More.\n").files[HTML]},
        NOT_THE_ONE,
    ),
    "marks of a merge": (
        lambda f: changed(f, HTML, b"{\n", b"<<<<<<< ours\n{\n=======\n"),
        "its html.json holds merge conflict marks",
    ),
    "marks of a merge in the inputs": (
        lambda f: changed(f, INPUTS, b"{\n", b"{\n>>>>>>> theirs\n"),
        "its inputs.json holds merge conflict marks",
    ),
    "a figure edited": (
        lambda f: {**f.files, FIGURE: b"<svg></svg>"},
        "its figure a-output-1.svg is not the one that was frozen",
    ),
    "a figure missing": (lambda f: without(f, FIGURE), "its figure a-output-1.svg is missing"),
    "a figure too many": (
        lambda f: {**f.files, "figure-html/b-output-1.svg": b""},
        "its figure b-output-1.svg belongs to another run",
    ),
    "an older format": (lambda f: older(f), "its freeze is in an older format"),
    "a mark of the byte order": (
        lambda f: {**f.files, INPUTS: b"\xef\xbb\xbf" + f.files[INPUTS]},
        "its inputs.json was changed by hand",
    ),
    "a key that stands twice": (
        lambda f: changed(f, INPUTS, b'  "modules"', b'  "modules": {},\n  "modules"'),
        "its inputs.json was changed by hand",
    ),
    "a forged seal around no freeze": (
        lambda f: {**f.files, INPUTS: resealed({"format": 1, "freeze": 1})},
        "its inputs.json is not what this build writes",
    ),
}


def without(made, name):
    return {key: content for key, content in made.files.items() if key != name}


def older(made):
    """As an earlier version of this build would have written it: sealed, other keys."""
    return {**made.files, INPUTS: resealed({"format": 0})}


def resealed(inputs):
    from bookbuild.freeze import _seal

    return json.dumps({**inputs, "seal": _seal(inputs)}, indent=2).encode() + b"\n"


@pytest.mark.parametrize("what", TAMPERED)
def test_whatever_was_done_to_a_freeze_is_found_and_named(what):
    tamper, expected = TAMPERED[what]
    assert why_unusable(Frozen(tamper(frozen()))).startswith(expected)


@timeless
@given(st.sampled_from([HTML, INPUTS, NUMBERS, FIGURE]), st.randoms(use_true_random=False))
def test_one_changed_byte_anywhere_is_found(name, chance):
    made = frozen()
    content = bytearray(made.files[name])
    place = chance.randrange(len(content))
    content[place] ^= 1 << chance.randrange(7)
    assert why_unusable(Frozen({**made.files, name: bytes(content)})) is not None


def test_a_checkout_with_windows_line_endings_is_the_same_freeze():
    made = frozen()
    files = {name: content.replace(b"\n", b"\r\n") for name, content in made.files.items()}
    assert why_unusable(Frozen(files)) is None


def test_what_only_leads_elsewhere_is_no_freeze(tmp_path):
    for name, content in frozen().files.items():
        (tmp_path / "one" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "one" / name).write_bytes(content)
    assert read(tmp_path / "one") == frozen()
    (tmp_path / "two").symlink_to(tmp_path / "one")
    assert why_unusable(read(tmp_path / "two")) == "its folder is a link to elsewhere"
    (tmp_path / "one" / HTML).rename(tmp_path / "html.json")
    (tmp_path / "one" / HTML).symlink_to(tmp_path / "html.json")
    assert why_unusable(read(tmp_path / "one")) == "its html.json is a link to elsewhere"


def test_nothing_frozen_is_nothing_executed(tmp_path):
    assert read(tmp_path / "none") is None
    assert why_unusable(None) == why_unusable(Frozen({})) == "was never executed"


# Prose: what is said differently must give, byte for byte, what an execution of the new text gives.

EDITS = {
    "a word": lambda text: text.replace("First.", "Primo: ünï."),
    "the title": lambda text: text.replace('"T"', '"Another"'),
    "text at the end": lambda text: text + "\n\nAnd `code`, {braces}.\n",
    "no text before the first cell": lambda text: text.replace("First.\n\n", ""),
    "text between neighbouring cells": lambda text: text.replace(
        "x\n```\n\n```", "x\n```\n\nNew.\n\n```", 1
    ),
    "a number said once more": lambda text: text.replace("First.", "First.").replace(
        '`{python} say("half")`', '`{python} say("half")` or `{python} say("half")`'
    ),
    "a said number moved in its gap": lambda text: text.replace(
        '`{python} say("said")`, `{python} say("half")`',
        '`{python} say("half")`, `{python} say("said")`',
    ),
    "an unchecked number no longer said": lambda text: text.replace('`{python} say("said")`', "it"),
    "a checked number no longer said": lambda text: text.replace('`{python} say("half")`', "it"),
    "blank lines in a cell's frame": lambda text: text.replace("x = 1\n", "\nx = 1\n\n"),
}  # fmt: skip


@pytest.mark.parametrize("what", EDITS)
def test_an_edit_of_prose_gives_what_an_execution_would(what):
    text = EDITS[what](TEXT)
    assert text != TEXT
    remaining = {"half": "4"} | ({"said": "3"} if 'say("said")' in text else {})
    said = [id for id in ("half", "said") if f'say("{id}")' in text]
    expected = frozen(text, ledger=remaining, said=said)
    assert weave(frozen(), parse("chapters/one.qmd", text)) == expected


@pytest.mark.parametrize(
    ("what", "old", "new"),
    [
        ("a cell's code", "x = 1", "x = 2"),
        ("a cell's option", "label: a\n", "label: a\n#| echo: false\n"),
        ("a new cell", "First.", "```{python}\n#| label: new\n1\n```"),
        ("a cell less", "```{python}\n#| label: c\nx\n```\n", ""),
        ("a new expression", "First.", "First `{python} 1 + 1`."),
        ("a number said above its cell", "First.", 'First `{python} say("half")`.'),
        ("an expression over a cell", " and `{python} count()`", ""),
        ("an expression's text", ", `{python} count()`.", ", `{python} other()`."),
        ("an expression less", ", `{python} count()`.", "."),
        ("an expression once more", ", `{python} count()`.", ", `{python} count()`" * 2),
        ("another expression", 'say("half")', 'say("third")'),
        ("a said number's spelling", 'say("half")', "say('half')"),
    ],
)
def test_what_could_change_a_result_is_not_woven(what, old, new):
    assert old in TEXT
    text = TEXT.replace(old, new, 1)
    assert weave(frozen(), parse("chapters/one.qmd", text)) is None


def test_cells_in_another_order_are_not_woven():
    first, second = (f"```{{python}}\n#| label: {label}\nx\n```\n" for label in "bc")
    assert f"{first}\n{second}" in TEXT
    text = TEXT.replace(f"{first}\n{second}", f"{second}\n{first}")
    assert weave(frozen(), parse("chapters/one.qmd", text)) is None


@pytest.mark.parametrize(
    "elsewhere", ["print(say('said'))", "x  # `{python} f\"{say('said')}\"`"]
)  # fmt: skip
def test_a_number_that_a_cell_says_too_is_not_forgotten(elsewhere):
    text = TEXT.replace("x = 1", elsewhere)
    shorter = text.replace('`{python} say("said")`', "it")
    assert weave(frozen(text), parse("chapters/one.qmd", shorter)) is None


def test_the_value_of_each_expression_stays_with_it_though_their_text_is_the_same():
    text = TEXT.replace("First.", "Second.")
    assert weave(frozen(), parse("chapters/one.qmd", text)).markdown.endswith(", 2, 3.\n\n")


prose = st.text(st.characters(categories=("L", "N", "P", "S", "Zs"), exclude_characters="`{~"))


@timeless
@given(st.lists(prose.filter(lambda t: t.strip() and not t.startswith(("---", "..."))), min_size=5))
def test_any_prose_between_the_cells_is_woven_as_it_would_be_executed(paragraphs):
    first, *rest = paragraphs
    text = TEXT.replace("First.", f"x {first}").replace("Between", f"{rest[0]} x").replace(
        "2, 3", rest[1]
    )  # fmt: skip
    text += "\n\n".join(rest)
    assert weave(frozen(), parse("chapters/one.qmd", text)) == frozen(text)


def test_weaving_equals_real_executions_byte_for_byte(books, executed_once, tmp_path):
    root = shutil.copytree(executed_once, tmp_path / "book")
    project = load_project(root)
    path = "chapters/two.qmd"
    then = read(root / folder_of(path))
    text = books.chapters[path]
    chance = random.Random(3)
    texts = [
        text.replace('title: "Two"', 'title: "Zwei"').replace("The end.", ""),
        text.replace('`{python} say("twice")`', "other").replace("Half is", "So"),
        text.replace('`{python} say("half")`', "half"),
        text.replace("The end.", "".join(chance.choices("ab ü*_[](){}#\n", k=300))),
    ]
    sources = [parse(path, changed) for changed in texts]
    runs = execute(project, sources, jobs=2, timeout=60, environment=kernel_environment(root))
    ledger = load_ledger(root / "ledger.toml")
    for source, run in zip(sources, runs, strict=True):
        assert isinstance(run, Run), run.problems
        assert weave(then, source) == freeze(run, ledger, settings_of(project))
