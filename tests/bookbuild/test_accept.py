"""`book accept` moves one expected value, and not a byte more."""

import json

import pytest

from bookbuild.accept import accept
from bookbuild.problems import BookError
from ledger import load_ledger
from ledger.inputs import file_digest

LEDGER = """\
# All numbers.  Two blanks, and a tab\there.

[norm]   # the first
statement = "Length"
value   = 7.0710678  # half of d, its root
# why so narrow: float32
tolerance = 2e-6
reason = "float32"
source = "closed form"

[table]
statement = "Rows"
value = [
[1, 2],  # first
  [3, 4],
]
tolerance = 0
reason = "counts"
source = "measured here"
accepted = [
  "[[0, 2], [3, 4]] -> [[1, 2], [3, 4]]: counted again",
]
# a comment after the last field

[hash-in-text]
statement = "A # sign"
value = "a # b" # text
tolerance = 0
reason = "text"
source = "x"

[count]
statement = "Count"
tolerance = 1
reason = "a count"
format = ",d"
source = "x"
value = 42"""


@pytest.fixture
def root(tmp_path):
    (tmp_path / "ledger.toml").write_text(LEDGER, encoding="utf-8")
    (tmp_path / ".book").mkdir()
    return tmp_path


def drifted(root, **values):
    drifts = {id: {"got": value, "chapter": "one.qmd"} for id, value in values.items()}
    (root / ".book/drifts.json").write_text(json.dumps(drifts))


def frozen(root, id, value, modules=()):
    folder = root / "_freeze/chapters/one/execute-results"
    folder.mkdir(parents=True)
    rows = {"numbers": [{"id": id, "value": value}], "environment": {"python": "3.11.7"}}
    (folder / "numbers.json").write_text(json.dumps(rows))
    libraries = {"keras": "3.15.1", "numpy": "2.4.6", "ipython": "9.0"}
    inputs = {"libraries": libraries, "modules": dict(modules), "data": {}}
    (folder / "inputs.json").write_text(json.dumps(inputs))


def changed_lines(root, before=LEDGER):
    """Lines that are gone and lines that are new."""
    old, new = before.splitlines(), (root / "ledger.toml").read_text().splitlines()
    return [line for line in old if line not in new], [line for line in new if line not in old]


def test_one_value_moves_and_every_other_byte_stays(root):
    drifted(root, norm=8.5)
    assert accept(root, "norm", " another d ") == "norm: 7.0710678 -> 8.5; now run make site"
    before, after = LEDGER.split("value   = 7.0710678")
    head, tail = after.split('source = "closed form"\n')
    assert (root / "ledger.toml").read_text() == (
        f"{before}value   = 8.5{head}"
        'source = "closed form"\naccepted = [\n  "7.0710678 -> 8.5: another d",\n]\n'
        f"{tail}"
    )
    assert load_ledger(root / "ledger.toml")["norm"].value == 8.5


def test_an_array_over_several_lines_and_its_history(root):
    drifted(root, table=[[1, 2], [3, 5]])
    accept(root, "table", "one more")
    assert changed_lines(root) == (
        ["value = [", "[1, 2],  # first", "  [3, 4],"],
        ["value = [[1, 2], [3, 5]]", '  "[[1, 2], [3, 4]] -> [[1, 2], [3, 5]]: one more",'],
    )
    assert len(load_ledger(root / "ledger.toml")["table"].accepted) == 2


def test_a_text_that_looks_like_a_comment(root):
    drifted(root, **{"hash-in-text": 'c # "d"'})
    accept(root, "hash-in-text", "x")
    assert changed_lines(root)[1][0] == r'value = "c # \"d\"" # text'


def test_the_last_entry_without_a_line_end(root):
    drifted(root, count=44)
    accept(root, "count", "x")
    assert (root / "ledger.toml").read_text() == (
        LEDGER.removesuffix("42") + '44\naccepted = [\n  "42 -> 44: x",\n]\n'
    )


def test_accepting_twice_keeps_both_reasons(root):
    for value in (8.0, 9.0):
        drifted(root, norm=value)
        accept(root, "norm", f"now {value}")
    assert load_ledger(root / "ledger.toml")["norm"].accepted == (
        "7.0710678 -> 8.0: now 8.0",
        "8.0 -> 9.0: now 9.0",
    )


def test_windows_line_endings_stay(root):
    (root / "ledger.toml").write_bytes(LEDGER.replace("\n", "\r\n").encode())
    drifted(root, norm=8.5)
    accept(root, "norm", "x")
    content = (root / "ledger.toml").read_bytes()
    assert content.count(b"\n") == content.count(b"\r\n") == LEDGER.count("\n") + 3


def test_without_a_drift_the_frozen_value_counts(root):
    frozen(root, "norm", 7.0710679)
    assert accept(root, "norm", "x").startswith("norm: 7.0710678 -> 7.0710679;")


def test_a_frozen_value_of_code_that_has_changed_since_is_not_taken(root):
    module = root / "code/measured/norms.py"
    module.parent.mkdir(parents=True)
    module.write_text("NORM = 5 * 2**0.5\n")
    frozen(root, "norm", 7.5, {"code/measured/norms.py": file_digest(module)})
    module.write_text("NORM = 8.0\n")
    with pytest.raises(BookError, match=r"before measured\.norms changed; run make site"):
        accept(root, "norm", "x")
    assert (root / "ledger.toml").read_text() == LEDGER
    drifted(root, norm=8.0)
    assert accept(root, "norm", "x").startswith("norm: 7.0710678 -> 8.0;")


@pytest.mark.parametrize(("frozen_as", "written"), [("NaN", "nan"), ("−∞", "-inf")])
def test_what_json_cannot_say_is_a_number_in_the_ledger(root, frozen_as, written):
    frozen(root, "norm", frozen_as)
    assert accept(root, "norm", "no answer").startswith(f"norm: 7.0710678 -> {written};")
    assert isinstance(load_ledger(root / "ledger.toml")["norm"].value, float)
    assert accept(root, "norm", "again") == f"norm is {written} already"


def test_a_value_that_is_there_already_changes_nothing(root):
    drifted(root, norm=7.0710678)
    assert accept(root, "norm", "x") == "norm is 7.0710678 already"
    assert (root / "ledger.toml").read_text() == LEDGER


@pytest.mark.parametrize(
    ("id", "reason", "value", "message"),
    [
        ("nrm", "x", 1, "ledger.toml: has no entry nrm"),
        ("norm", " ", 1, "ledger.toml: the reason must be one line of plain text, got ' '"),
        ("norm", "a\nb", 1, "ledger.toml: the reason must be one line of plain text, got 'a\\nb'"),
        ("norm", 'a "b"', 1, "ledger.toml: the reason must be one line of plain text"),
        ("norm", "x", "text", "ledger.toml:3: [norm] would not fit the value \"text\": tolerance"),
        ("count", "x", 42.5, "ledger.toml:32: [count] would not fit the value 42.5: format"),
        ("table", "x", None, "ledger.toml: nothing has computed table yet; run book build first"),
    ],
)  # fmt: skip
def test_what_cannot_be_accepted_leaves_the_ledger_alone(root, id, reason, value, message):
    drifted(root, **({id: value} if value is not None else {}))
    with pytest.raises(BookError) as caught:
        accept(root, id, reason)
    assert str(caught.value).startswith(message)
    assert (root / "ledger.toml").read_text() == LEDGER
    assert sorted(path.name for path in root.iterdir()) == [".book", "ledger.toml"]


def test_an_entry_written_in_a_rare_way_is_left_to_a_person(root):
    text = 'norm = {statement = "L", value = 1, tolerance = 0, reason = "r", source = "s"}\n'
    (root / "ledger.toml").write_text(text)
    drifted(root, norm=2)
    with pytest.raises(BookError, match=r"could not rewrite \[norm\]; edit it by hand"):
        accept(root, "norm", "x")
    assert (root / "ledger.toml").read_text() == text


def test_a_broken_ledger_is_told_once_with_its_line(root):
    (root / "ledger.toml").write_text("[norm]\nvalue = \n")
    with pytest.raises(BookError, match=r"^ledger.toml:2: is not TOML"):
        accept(root, "norm", "x")


def test_a_broken_freeze_is_passed_over(root):
    frozen(root, "norm", 8.0)
    other = root / "_freeze/a/execute-results/numbers.json"
    other.parent.mkdir(parents=True)
    other.write_text("<<<<<<<")
    assert "-> 8.0" in accept(root, "norm", "x")
