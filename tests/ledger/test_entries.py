"""`ledger.toml` is read whole or refused with the line of each entry that is wrong."""

import pytest

from ledger import LedgerError, load_ledger
from ledger.entries import line_of, load_ties

GOOD = """\
# A comment.
[pe-norm-d100]
statement = "Length of row 34"
value = 7.0710678
tolerance = 2e-6
reason = "float32"
format = ".4f"
source = "Vaswani et al. (2017), closed form √(d/2)"

[shape-of-heads]
statement = "Shape of the heads"
value = [
  2,
  5,
]
tolerance = 0
reason = "a shape"
format = "shape"
source = "measured here"
accepted = ["[2, 4] -> [2, 5]: one head more"]
"""


@pytest.fixture
def ledger(tmp_path):
    def load(text):
        path = tmp_path / "ledger.toml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load_ledger(path)

    return load


def entry(**changes) -> str:
    """One entry on lines 2 to 7, with fields changed or, where None, left out."""
    fields = {
        "statement": '"What it is"',
        "value": "1.5",
        "tolerance": "0.1",
        "reason": '"noise"',
        "source": '"measured here"',
    } | changes
    return "\n[an-id]\n" + "".join(f"{k} = {v}\n" for k, v in fields.items() if v is not None)


def test_entries_come_in_the_file_s_order_with_their_fields(ledger):
    first, second = ledger(GOOD).values()
    assert (first.id, first.value, first.tolerance, first.band) == (
        "pe-norm-d100", 7.0710678, 2e-6, "± 2e-06",
    )  # fmt: skip
    assert first.show(first.value) == "7.0711"
    assert (second.value, second.band, second.show([2, 5])) == ([2, 5], "exact", "(2, 5)")
    assert second.accepted == ("[2, 4] -> [2, 5]: one head more",)


def test_a_folder_without_a_ledger_has_an_empty_one(tmp_path):
    assert load_ledger(tmp_path / "ledger.toml") == {}


def test_digest_changes_with_each_field_but_not_with_comments_and_order(ledger):
    def digest(text):
        return ledger(text)["an-id"].digest()

    same = digest(entry())
    assert digest(f"# comment\n{entry()}# more\n[z-z]\n{entry().split(']')[1]}") == same
    changes = {
        "value": "1.6",
        "tolerance": "0.2",
        "reason": '"other"',
        "source": '"other"',
        "statement": '"other"',
        "format": '".3f"',
        "unit": '"MB"',
        "accepted": '["1 -> 2: x"]',
    }
    digests = {digest(entry(**{key: value})) for key, value in changes.items()}
    assert len(digests | {same}) == len(changes) + 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (entry(tolerance=None), "ledger.toml:2: [an-id] lacks tolerance"),
        (entry(reason=None), "ledger.toml:2: [an-id] lacks reason"),
        (entry(statement='" "'), "ledger.toml:2: [an-id] statement must be a text that says"),
        (entry(reason="3"), "ledger.toml:2: [an-id] reason must be a text that says something"),
        (entry(source="'a \"b\"'"), "ledger.toml:2: [an-id] source may not hold '\"'"),
        (entry(source='"a | b"'), "ledger.toml:2: [an-id] source may not hold '|'"),
        (entry(statement='"$x$"'), "ledger.toml:2: [an-id] statement may not hold '$'"),
        (entry(tolerence="0"), "ledger.toml:2: [an-id] has an unknown field tolerence"),
        (entry(value="[[1, 2], [3]]"), "ledger.toml:2: [an-id] value must be a number, a text"),
        (entry(value="2024-01-01"), "ledger.toml:2: [an-id] value must be a number, a text"),
        (entry(tolerance="-1"), "ledger.toml:2: [an-id] tolerance must be a finite number"),
        (entry(tolerance="nan"), "ledger.toml:2: [an-id] tolerance must be a finite number"),
        (entry(tolerance="inf"), "ledger.toml:2: [an-id] tolerance must be a finite number"),
        (entry(tolerance="true"), "ledger.toml:2: [an-id] tolerance must be a finite number"),
        (entry(tolerance='"0"'), "ledger.toml:2: [an-id] tolerance must be a finite number"),
        (entry(value='"text"'), "ledger.toml:2: [an-id] tolerance must be 0 where the value is"),
        (entry(value="true"), "ledger.toml:2: [an-id] tolerance must be 0 where the value is"),
        (entry(format='"d"'), "ledger.toml:2: [an-id] format 'd' is for whole numbers"),
        (entry(format='"yes"', value="true", tolerance="0"),
         "ledger.toml:2: [an-id] format 'yes' does not fit the value: true and false need"),
        (entry(format='"wrong"'), "ledger.toml:2: [an-id] format 'wrong' does not fit the value"),
        (entry(format="4"), "ledger.toml:2: [an-id] format must be a text"),
        (entry(unit="4"), "ledger.toml:2: [an-id] unit must be a text"),
        (entry(accepted="4"), "ledger.toml:2: [an-id] accepted must be a list of texts"),
        (entry(accepted='"x"'), "ledger.toml:2: [an-id] accepted must be a list of texts"),
        (entry().replace("an-id", "An_Id"), "ledger.toml:2: [An_Id] is no id: use lower-case"),
        ("\nx = 3\n", "ledger.toml:1: [x] must be a table"),
        (entry() + entry(), "ledger.toml:9: is not TOML: Cannot declare ('an-id',) twice"),
        (entry(value="1,5"), "ledger.toml:4: is not TOML"),
        (entry(value="[1,"), "ledger.toml:5: is not TOML"),
        (b"\nx = \"\xe9\"\n", "ledger.toml:1: is not UTF-8"),
    ],
)  # fmt: skip
def test_a_wrong_entry_is_refused_with_its_line(ledger, text, message):
    with pytest.raises(LedgerError) as caught:
        ledger(text)
    assert str(caught.value).startswith(message)


def test_all_wrong_entries_are_told_at_once(ledger):
    text = entry(reason=None) + entry(source=None).replace("an-id", "b")
    with pytest.raises(LedgerError) as caught:
        ledger(text)
    assert str(caught.value).splitlines() == [
        "ledger.toml:2: [an-id] lacks reason",
        "ledger.toml:8: [b] lacks source",
    ]


def test_line_of_an_entry_is_not_that_of_a_longer_id():
    assert line_of("[a-b]\n[a]\n", "a") == 2


TIES = '\n[tied]\ndraws = "random numbers"\n"keras-2" = "of Keras 2"\n'


def test_an_entry_names_why_it_is_tied_and_its_pages_stay_fresh(ledger, tmp_path):
    (free,) = ledger(TIES + entry()).values()
    (tied,) = ledger(TIES + entry(tied='"draws"')).values()
    assert (free.tied, tied.tied) == ("", "draws")
    assert tied.digest() == free.digest(), "no page shows it"
    (moved,) = ledger(TIES + entry(tied='"draws"', value="1.6")).values()
    assert moved.digest() != tied.digest()
    assert load_ties(tmp_path / "ledger.toml") == {
        "draws": "random numbers",
        "keras-2": "of Keras 2",
    }


@pytest.mark.parametrize("tied", ['"drawn"', '""', "true", '["draws"]', "3"])
def test_a_tie_that_the_ledger_does_not_explain_is_refused(ledger, tied):
    with pytest.raises(LedgerError) as raised:
        ledger(TIES + entry(tied=tied))
    assert str(raised.value) == (
        "ledger.toml:6: [an-id] tied must name a reason of the table [tied], "
        "which has draws, keras-2"
    )


def test_a_ledger_without_ties_refuses_any(ledger):
    with pytest.raises(LedgerError, match=r"\[tied\], which has nothing yet"):
        ledger(entry(tied='"draws"'))


def test_a_tie_without_a_reason_is_refused(ledger):
    with pytest.raises(LedgerError, match=r"ledger\.toml:2: \[tied\] draws needs a reason"):
        ledger('\n[tied]\ndraws = " "\n')
