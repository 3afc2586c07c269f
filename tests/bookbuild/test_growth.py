"""How a build grows: measured on small books, and what would be said of a bad one."""

import json
from pathlib import Path

import pytest

from bookbuild import growth
from bookbuild.bench_book import many_pages
from bookbuild.growth import exponent, faults, steepest
from bookbuild.problems import BookError

ROOT = Path(__file__).resolve().parents[2]


def row(chapters, seconds, nothing=0.1):
    steps = {step: {"seconds": seconds, "processor": 1.0, "memory": 50.0} for step in growth.STEPS}
    steps["nothing changed"] = {"seconds": nothing, "processor": 1.0, "memory": 50.0}
    return {"chapters": chapters, "steps": steps}


def test_chapters_differ_and_lead_to_each_other():
    pages = many_pages(3)
    assert [page.name for page in pages] == ["index", "part-1", "part-2", "part-3"]
    assert len({piece.code for page in pages for piece in page.cells}) == 4  # one is common to all
    assert [page.pieces[-1].link for page in pages[1:]] == ["part-2", "part-3", "part-1"]


def test_linear_growth_has_exponent_one_and_quadratic_two():
    assert exponent((10, 1.0), (100, 10.0)) == pytest.approx(1)
    assert exponent((10, 3.0), (1000, 30_000.0)) == pytest.approx(2)
    rows = [row(10, 1.0), row(100, 4.0), row(1000, 60.0)]
    assert steepest(rows)["render"] == pytest.approx(1.176, abs=1e-3)  # the steeper of both steps


def test_a_step_worse_than_linear_and_a_slow_build_of_nothing_are_told():
    assert faults([row(10, 1.0), row(1000, 100.0, nothing=1.9)]) == []
    told = faults([row(10, 1.0), row(1000, 1000.0, nothing=2.5)])
    assert "render grows with the power 1.50 of the number of chapters" in told
    assert "1000 chapters: 2.5 s with nothing changed" in told


def test_books_of_two_sizes_are_built_and_nothing_grows_faster_than_they_do(tmp_path):
    said = []
    rows = growth.measure(ROOT, tmp_path, [4, 12], 2, said.append)
    assert [one["chapters"] for one in rows] == [4, 12]
    book = tmp_path / "growth-12"
    assert len(list((book / "_book").glob("part-*.html"))) == 12
    html = (book / "_freeze/part-12/execute-results/html.json").read_text(encoding="utf-8")
    assert str(sum(range(12, 22))) in json.loads(html)["result"]["markdown"]
    assert "Indeed." in (book / "_book/part-1.html").read_text(encoding="utf-8")
    # Of processor time: the machine may be busy. A start costs as much for any book.
    assert all(value < 1.3 for value in steepest(rows, "processor").values())
    assert rows[1]["steps"]["nothing changed"]["processor"] < 2


def test_a_build_that_fails_is_told_and_not_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(growth, "many_pages", lambda size: many_pages(size) * 2)
    with pytest.raises(BookError, match=r"execute failed: .*two chapters are called"):
        growth.measure(ROOT, tmp_path, [2], 1, lambda said: None)
