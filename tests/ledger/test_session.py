"""`check` holds a number to the ledger, `say` prints it; what they say when they refuse."""

import json
from pathlib import Path

import numpy as np
import pytest

import ledger.session
from ledger import DriftError, check, say
from ledger.entries import Entry, load_ledger
from ledger.environment import environment
from ledger.session import Session, UnknownNumber

ROOT = Path(__file__).resolve().parents[2]
LEDGER = """\
[norm]
statement = "Length of row 34"
value = 7.0710678
tolerance = 2e-6
reason = "float32"
format = ".4f"
source = "closed form √(d/2)"

[heads]
statement = "Shape of the heads"
value = [2, 5]
tolerance = 0
reason = "a shape"
format = "shape"
source = "measured here"

[leaks]
statement = "Whether the mask leaks"
value = false
tolerance = 0
reason = "a truth"
format = "leaks|does not leak"
source = "measured here"

[word]
statement = "The nearest word"
value = "queen"
tolerance = 0
reason = "a word"
source = "measured here"
"""
CHAPTER = """---
title: "One"
---

```{python}
#| label: setup
from ledger import check, say
```

```{python}
#| label: length
norm = check(
    "norm", 7)
```

`{python} say("norm")`
"""


@pytest.fixture
def root(tmp_path):
    (tmp_path / "_quarto.yml").write_text("project:\n  type: book\n")
    (tmp_path / "ledger.toml").write_text(LEDGER, encoding="utf-8")
    (tmp_path / "one.qmd").write_text(CHAPTER, encoding="utf-8")
    return tmp_path


@pytest.fixture
def session(root):
    return Session(root, "one.qmd", load_ledger(root / "ledger.toml"))


@pytest.fixture
def own(root, monkeypatch):
    """The functions that a chapter imports, in a kernel that was started in the book's folder."""
    monkeypatch.setattr(ledger.session, "_session", None)
    monkeypatch.delenv("QUARTO_PROJECT_ROOT", raising=False)
    monkeypatch.chdir(root)
    return root


def test_check_returns_the_very_value_it_was_given(session):
    value = np.float32(7.0710678)
    assert session.check("norm", value) is value
    assert session.checked["norm"] == pytest.approx(7.0710678, abs=1e-6)  # float32's last bit


def test_a_value_on_the_tolerance_passes_and_one_beyond_it_drifts(root):
    entry = Entry("a", "A", 1.0, 0.25, "r", "s")
    session = Session(root, "", {"a": entry})
    session.check("a", 1.25)
    with pytest.raises(DriftError, match=r"a drifted by 1\.04 tolerances"):
        session.check("a", 1.26)


def test_the_drift_message_says_all_that_is_needed(session):
    with pytest.raises(DriftError) as caught:
        session.check("norm", 7.0720678)
    assert str(caught.value).splitlines() == [
        "norm drifted by 500 tolerances",
        "  what      Length of row 34",
        "  expected  7.0710678 ± 2e-06 (float32)",
        "  got       7.0720678",
        "  where     one.qmd:12, cell length",
        "  changed   unknown: this chapter has no usable freeze",
        '  if the new value is right: book accept norm --reason "…"',
    ]


@pytest.mark.parametrize(
    ("id", "value", "first_line"),
    [
        ("norm", float("nan"), "norm drifted"),
        ("norm", True, "norm drifted: its kind is bool, expected float"),
        ("norm", "7.07", "norm drifted: its kind is str, expected float"),
        ("norm", [7.07], "norm drifted: its shape is (1,), expected ()"),
        ("heads", (2, 6), "heads drifted by 1; it must be exact"),
        ("heads", (2, 5, 1), "heads drifted: its shape is (3,), expected (2,)"),
        ("leaks", True, "leaks drifted"),
        ("leaks", 0, "leaks drifted: its kind is int, expected bool"),
        ("word", "king", "word drifted"),
    ],
)
def test_the_first_line_says_in_what_way_a_value_is_wrong(session, id, value, first_line):
    with pytest.raises(DriftError) as caught:
        session.check(id, value)
    assert str(caught.value).splitlines()[0] == first_line


def test_a_notebook_shows_the_message_and_no_frames(session):
    with pytest.raises(DriftError) as caught:
        session.check("word", "king")
    assert caught.value._render_traceback_()[0] == "word drifted"


def test_while_the_book_is_built_all_drifts_are_collected(session):
    session.building = True
    session.check("word", "king")
    session.check("norm", 8.0)
    assert [(drift.id, drift.got, drift.line) for drift in session.drifts] == [
        ("word", "king", 0),
        ("norm", 8.0, 12),
    ]


def test_a_second_check_is_refused_in_a_build_and_allowed_to_a_reader(session):
    session.check("word", "queen")
    session.check("word", "queen")
    session.building = True
    with pytest.raises(UnknownNumber, match="word is checked twice; give the second its own entry"):
        session.check("word", "queen")


def test_an_unknown_id_is_refused_with_the_nearest_ones(session):
    with pytest.raises(UnknownNumber) as caught:
        session.check("norms", 1)
    assert str(caught.value) == "ledger.toml has no entry norms; nearest: norm"
    with pytest.raises(UnknownNumber, match=r"^ledger.toml has no entry zzz$"):
        session.say("zzz")


def test_say_prints_the_checked_value_and_the_expected_one_of_another_chapter(session):
    assert repr(session.say("norm")) == "7.0711"
    session.check("heads", (2, 5))
    assert str(session.say("heads")) == "(2, 5)"
    assert session.said == {"norm", "heads"}


def test_a_said_number_is_a_span_with_what_a_reader_may_ask(session):
    session.check("norm", 7.0710683)
    assert session.say("norm")._repr_markdown_() == (
        '[7.0711]{.claim data-claim="norm" title="Length of row 34. Expected 7.0710678, '
        'within 2×10⁻⁶: float32. Source: closed form √(d/2)"}'
    )
    assert session.say("leaks")._repr_markdown_() == (
        '[does not leak]{.claim data-claim="leaks" title="Whether the mask leaks. '
        'Expected does not leak, exactly: a truth. Source: measured here"}'
    )


def test_no_sign_of_a_said_text_is_read_as_markdown(root):
    text = 'a_b*c @d ~e~ "f" $g$ h--i |`j`] \\'
    session = Session(root, "", {"t": Entry("t", "T", text, 0.0, "r", "s")})
    shown = session.say("t")._repr_markdown_()
    assert shown.startswith(
        r"[a\_b\*c \@d \~e\~ \"f\" \$g\$ h\-\-i \|\`j\`\] \\]{.claim "
    )  # fmt: skip
    assert shown.count('"') == 6  # the escaped two, and those of the two attributes


def test_a_long_array_is_shortened_in_the_title_only(root):
    values = [float(number) for number in range(100)]
    session = Session(root, "", {"t": Entry("t", "T", values, 0.0, "r", "s", ".0f")})
    said = session.say("t")
    assert said.text.startswith("[0, 1, 2") and said.text.endswith("98, 99]")
    assert " … " in said._repr_markdown_().split("title=")[1]


def test_what_changed_since_the_freeze_is_named(session, root):
    digest = load_ledger(root / "ledger.toml")["norm"].digest()
    (root / "code/measured").mkdir(parents=True)
    (root / "code/measured/positions.py").write_text("new\n")
    folder = root / "_freeze/one/execute-results"
    folder.mkdir(parents=True)
    record = {
        "modules": {"code/measured/positions.py": "0" * 64, "code/measured/gone.py": "0" * 64},
        "data": {},
        "ledger": {"norm": digest, "lost": "0"},
        "libraries": {},
    }
    (folder / "inputs.json").write_text(json.dumps(record))
    (folder / "numbers.json").write_text(json.dumps({"environment": environment()}))
    with pytest.raises(DriftError) as caught:
        session.check("norm", 8)
    assert "  changed   measured.gone is gone, measured.positions changed" in (
        str(caught.value).splitlines()
    ), "an entry that this number has nothing to do with is no cause"


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"modules": 3}', "<<<<<<<"])
def test_a_broken_freeze_does_not_hide_a_drift(session, root, content):
    folder = root / "_freeze/one/execute-results"
    folder.mkdir(parents=True)
    (folder / "inputs.json").write_text(content)
    with pytest.raises(DriftError, match="no usable freeze"):
        session.check("norm", 8)


def test_a_readers_own_notebook_finds_the_book_from_a_folder_inside(own, monkeypatch):
    (own / "chapters").mkdir()
    monkeypatch.chdir(own / "chapters")
    assert check("word", "queen") == "queen"
    assert str(say("word")) == "queen"


def test_in_a_notebook_elsewhere_the_package_has_the_books_own_ledger(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger.session, "_session", None)
    monkeypatch.delenv("QUARTO_PROJECT_ROOT", raising=False)
    monkeypatch.chdir(tmp_path)
    entry = load_ledger(ROOT / "ledger.toml")["pe-pairs"]
    assert check("pe-pairs", entry.value) == entry.value
    with pytest.raises(DriftError, match=r"pe-pairs drifted by 1; it must be exact"):
        check("pe-pairs", entry.value + 1)


def test_without_book_and_ledger_the_message_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger.session, "_session", None)
    monkeypatch.setattr(ledger.session, "__file__", str(tmp_path / "a" / "b" / "session.py"))
    monkeypatch.setenv("QUARTO_PROJECT_ROOT", str(tmp_path))
    with pytest.raises(
        FileNotFoundError, match=r"no _quarto.yml in .* or above it: run this inside"
    ):
        check("a", 1)


def test_quarto_tells_the_document(own, monkeypatch):
    monkeypatch.setenv("QUARTO_DOCUMENT_PATH", str(own))
    monkeypatch.setenv("QUARTO_DOCUMENT_FILE", "one.qmd")
    with pytest.raises(DriftError, match=r"where     one.qmd:12, cell length"):
        check("norm", 8)
