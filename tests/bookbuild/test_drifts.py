"""What a failed build leaves behind: values for `accept`, and a report that names what held."""

import pytest

from bookbuild.accept import accept
from bookbuild.build import ChaptersFailed
from bookbuild.drifts import REPORT, VALUES, versions
from ledger import load_ledger


def test_the_report_lists_what_moved_with_its_cause_and_what_did_not(executed, books):
    books.edit(executed / "code/measured/doubles.py", "2 *", "3 *")
    books.edit(executed / "chapters/one.qmd", 'print("the', 'check("half", 0.5)\nprint("the')
    books.edit(executed / "chapters/two.qmd", 'check("half", ', "(")
    with pytest.raises(ChaptersFailed) as caught:
        books.bring_up_to_date(executed)
    assert (caught.value.moved, caught.value.held) == (1, 1)
    text = (executed / REPORT).read_text()
    assert text.startswith("1 of 2 recomputed numbers moved.\n")
    assert "twice drifted by 21" in text and "measured.doubles changed" in text
    assert "\ndid not move: half\n" in text
    assert "\ncomputed with Python 3." in text


def test_the_next_good_build_takes_the_report_away(executed, books):
    books.edit(executed / "code/measured/doubles.py", "2 *", "3 *")
    with pytest.raises(ChaptersFailed):
        books.bring_up_to_date(executed)
    books.edit(executed / "code/measured/doubles.py", "3 *", "2  *")
    books.bring_up_to_date(executed)
    assert not (executed / REPORT).exists()
    assert (executed / VALUES).read_text() == "{}"


def test_an_accepted_value_keeps_the_versions_that_gave_it(executed, books):
    books.edit(executed / "code/measured/doubles.py", "2 *", "3 *")
    with pytest.raises(ChaptersFailed):
        books.bring_up_to_date(executed)
    accept(executed, "twice", "three is meant")
    entry = load_ledger(executed / "ledger.toml")["twice"]
    assert entry.value == 63
    (note,) = entry.accepted
    assert note.startswith("42 -> 63: three is meant (Python 3.")


def test_only_what_numbers_depend_on_is_named():
    record = {
        "libraries": {"numpy": "2.4.6", "ipython": "9.1", "keras": "3.15.1"},
        "environment": {"python": "3.11.7"},
    }
    assert versions(record) == "Python 3.11.7, keras 3.15.1, numpy 2.4.6"
    assert versions({}) == ""
