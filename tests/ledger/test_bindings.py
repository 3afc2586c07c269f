"""Every entry is checked once, and nothing is said that no chapter checks."""

from ledger.bindings import Bound, unbound
from ledger.entries import Entry

LEDGER = {id: Entry(id, "S", 1, 0, "r", "s") for id in ("a", "b")}


def found(root, *bounds):
    (root / "ledger.toml").write_text("[a]\n\n[b]\n")
    (root / "one.qmd").write_text('x\ny "b"\n`say("zz")`\ncheck("a", 1)\ncheck(\'b\', 2)\n')
    (root / "two.qmd").write_text('prose about "a"\ncheck("a", 1)\n')
    return unbound(LEDGER, root, bounds)


def test_a_whole_book_has_nothing_unbound(tmp_path):
    one, two = Bound("one.qmd", ("a", "b"), ("a",)), Bound("two.qmd", (), ("a", "b"))
    assert found(tmp_path, one, two) == []


def test_an_entry_that_nobody_checks_is_named_with_its_line(tmp_path):
    assert found(tmp_path, Bound("one.qmd", ("a",), ())) == [
        ("ledger.toml", 3, "[b] is checked by no chapter; remove it or use it")
    ]


def test_an_id_that_two_chapters_check_is_named_where_the_second_checks_it(tmp_path):
    one, two = Bound("one.qmd", ("a", "b"), ()), Bound("two.qmd", ("a",), ())
    assert found(tmp_path, one, two) == [
        ("two.qmd", 2, "a is checked by one.qmd too; give one of them its own entry")
    ]


def test_an_id_that_is_only_said_is_named_where_it_is_said(tmp_path):
    assert found(tmp_path, Bound("one.qmd", ("a", "b"), ("zz",))) == [
        ("one.qmd", 3, "zz is said, but no chapter checks it")
    ]


def test_an_id_that_only_words_rest_on_is_named_where_they_stand(tmp_path):
    one = Bound("one.qmd", ("a", "b"), ())
    two = Bound("two.qmd", (), (), ("a", "zz", "zz"))
    problems = found(tmp_path, one, two)
    assert problems == [("two.qmd", 0, "zz is said in words, but no chapter checks it")]
    (tmp_path / "two.qmd").write_text('x\n[nine]{.worded data-claim="zz"}\n')
    assert unbound(LEDGER, tmp_path, [one, two])[0][1] == 2


def test_one_chapter_that_checks_twice_is_named_too(tmp_path):
    assert found(tmp_path, Bound("one.qmd", ("a", "b", "a"), ())) == [
        ("one.qmd", 4, "a is checked by one.qmd too; give one of them its own entry")
    ]
