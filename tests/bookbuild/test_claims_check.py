"""Rendered pages are read back: whatever a page says otherwise than ledger and freeze is found."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from bookbuild.build import build, check_pages
from bookbuild.claims_check import count_claims, expected_of, problems_of_site
from bookbuild.claims_page import read_page, tex
from bookbuild.cli import main
from bookbuild.problems import BookError
from bookbuild.project import load_project

CODE = Path(__file__).resolve().parents[2] / "code"
VALUES = {  # id -> value, format, unit
    "half": ("0.5", ".4f", ""),
    "count": ("63082496", ",d", ""),
    "rows": ("[[1.5, 2.0], [-3.0, 0.25]]", ".2f", ""),
    "fall": ("-0.25", ".2f", ""),
    "tiny": ("3.6e-7", ".1e", ""),
    "size": ("1.5", ".1f", "MB"),
    "same": ("true", "yes|no", ""),
    "name": ("'a_b* [c] \"d\"...'", "", ""),
    "none": ("nan", "", ""),
    "triple": ("8.97", ".2f", ""),
    "near": ("0.5004", ".4f", ""),  # computed as 0.5001
}
LEDGER = "\n".join(
    f'[{id}]\nstatement = "The {id}"\nvalue = {value}\nreason = "exact"\n'
    f"tolerance = {0.001 if id == 'near' else 0}\n"
    f'format = "{form}"\nunit = "{unit}"\nsource = "arithmetic"\n'
    for id, (value, form, unit) in VALUES.items()
)


def say(id: str) -> str:
    return f'`{{python}} say("{id}")`'


ONE = f"""\
---
title: "One"
---

```{{python}}
#| label: checks
#| output: false
from ledger import check, say
half = check("half", 0.5)
check("count", 63082496)
check("rows", [[1.5, 2.0], [-3.0, 0.25]])
check("fall", -0.25)
check("tiny", 3.6e-7)
check("size", 1.5)
check("same", True)
check("name", 'a_b* [c] "d"...')
check("none", float("nan"))
check("triple", 8.97)
check("near", 0.5001)
```

## A heading of {say("half")} {{#sec-heading}}

It is {say("half")}, {say("count")}, {say("rows")}, {say("fall")}, {say("size")}, {say("same")},
{say("name")}, {say("none")}, and again {say("half")}.[^note]
The `[0.1]{{.claim data-claim="half" title="x"}}` in code is none.

[^note]: A note of {say("tiny")}.

Inside a formula: $x = {say("fall")} < {say("count")}$.

$$
y = {say("tiny")} + {say("rows")}
$$ {{#eq-y}}

| a | b |
|---|--:|
| {say("fall")} | {say("half")} |

It costs [ninefold]{{.worded data-claim="triple"}}, [a *half*]{{.worded data-claim="half"}} in
@eq-y, [at most two]{{.worded data-claim="rows" data-at="0"}}. It is {say("near")},
[half]{{.worded data-claim="near"}}.
"""
TWO = f"""\
---
title: "Two"
---

```{{python}}
#| label: setup
from ledger import check, say
```

Elsewhere it was {say("triple")} and {say("near")}, which is
[nearly eighteen times]{{.worded data-claim="triple" data-over="half"}} that.
"""
CHAPTERS = {
    "index.qmd": "# Preface\n\nIt is [half]{.worded data-claim=half}.\n",
    "chapters/one.qmd": ONE,
    "chapters/two.qmd": TWO,
    "chapters/numbers.qmd": "---\ntitle: Numbers\n---\n\n::: {.verified-numbers}\n:::\n",
}
PAGE = "chapters/one.html"


@pytest.fixture(scope="module")
def built(tmp_path_factory, books) -> Path:
    """A small book, built for real. Nobody may change it: see `book`."""
    root = books.write(tmp_path_factory.mktemp("claims") / "book", CHAPTERS, LEDGER)
    build(load_project(root), jobs=1)
    return root


@pytest.fixture
def book(built, tmp_path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "book"))


def found(root: Path) -> list[str]:
    return problems_of_site(root, root / "_book")


def change(path: Path, old: str, new: str, count: int | None = 1) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text and count in (None, text.count(old)), f"{text.count(old)} times {old!r}"
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_a_good_site_is_good_and_every_claim_of_it_is_read(book):
    assert found(book) == []
    assert count_claims(book / "_book") == (24, 5)  # 404.html is one
    page = read_page((book / "_book" / PAGE).read_text(encoding="utf-8"))
    kinds = [claim.kind for claim in page.claims if not claim.repeated]
    assert [kinds.count(kind) for kind in ("claim", "formula", "worded")] == [14, 2, 4]
    repeated = {claim.ids for claim in page.claims if claim.repeated}
    assert repeated == {("half",)}  # the heading, in the contents
    assert len(read_page((book / "_book/chapters/numbers.html").read_text()).rows) == len(VALUES)


HALF = '<span class="claim" data-claim="half" title="The half. Expected 0.5, exactly: exact. '
HALF += 'Source: arithmetic">0.5000</span>'


@pytest.mark.parametrize(
    "old, new, said",
    [
        ("63,082,496</span>", "63,082,497</span>", "count reads '63,082,497', the ledger says"),
        (">−0.25</span></td>", ">0.25</span></td>", "fall reads '0.25', the ledger says '−0.25'"),
        (">−0.25</span></td>", ">-0.25</span></td>", "fall reads '-0.25'"),
        (">yes</span>", ">no</span>", "same reads 'no'"),
        (">1.5\u00a0MB<", ">1.5\u00a0GB<", "size reads '1.5\\xa0GB'"),
        (">[[1.50, 2.00]", ">[[2.00, 1.50]", "rows reads '[[2.00, 1.50]"),
        (">NaN<", ">0<", "none reads '0'"),
        ('data-claim="size"', 'data-claim="sise"', "sise is no entry of the ledger"),
        ('data-claim="size"', 'data-claim="triple"', "triple reads '1.5"),
        ('data-claim="size"', "", "1.5"),
        ("The size. Expected 1.5", "The size. Expected 2.5", "size is described as"),
        ('exactly: exact. Source: arithmetic">63,', 'exactly: x. Source: arithmetic">63,',
         "count is described as"),
        (' title="The same. Expected yes, exactly: exact. Source: arithmetic"', "",
         "same has lost its description"),
        (">ninefold<", ">tenfold<", '"tenfold" means 9.5 to 10.5, but triple is 8.97'),
        ("at most two", "at most one", "means at most 1, but rows is"),
        ("x = -0.25", "x = 0.25", "the formula 'x = 0.25"),
        ("x = -0.25", "x = -0.255", "the formula 'x = -0.255"),
        ("63{,}082{,}496", "63{,}082{,}96", "does not hold '63{,}082{,}496'"),
        ("3.6\\times 10^{-7}", "3.6\\times 10^{7}", "of tiny"),
        ("y = ", "z = ", "with a verified number is missing or changed"),
        ('data-claims="fall count"', 'data-claims="fall half"', "does not hold '0.5000' of half"),
        ('x-tex">x = ', 'x-tex">z = ', "is missing or changed"),
    ],
)  # fmt: skip
def test_a_page_that_says_something_else_is_named_with_its_line(book, old, new, said):
    path = book / "_book" / PAGE
    line = next(n for n, text in enumerate(path.read_text().split("\n"), 1) if old in text)
    change(path, old, new)
    problems = found(book)
    assert any(said in one for one in problems), problems
    assert any(one.startswith((f"{PAGE}:{line}:", f"{PAGE}:0:")) for one in problems), problems
    with pytest.raises(BookError, match=re.escape(PAGE)):
        check_pages(book, book / "_book", book / "_freeze")


def test_a_claim_that_is_gone_or_stands_twice_is_named(book):
    path = book / "_book" / PAGE
    text = path.read_text(encoding="utf-8")
    again = f"and again {HALF}"
    path.write_text(text.replace(again, "and again 0.5000"), encoding="utf-8")
    assert found(book) == [
        f"{PAGE}:0: half 0.5000 is said in the source, but missing from the page"
    ]
    path.write_text(text.replace(again, f"and again {HALF} and {HALF}"), encoding="utf-8")
    (one,) = found(book)
    assert one.endswith("half 0.5000 stands on the page, but not in its source")
    path.write_text(text.replace(">ninefold</span>", ">x</span>").replace("x</span>", "", 1))
    assert any("triple ninefold is said in the source" in one for one in found(book))


def test_a_claim_in_the_contents_is_compared_too(book):
    path = book / "_book" / PAGE
    text = path.read_text(encoding="utf-8")
    at = text.index("0.5000</span>", text.index('class="contents contents-side"'))
    path.write_text(text[:at] + "0.6000" + text[at + 6 :], encoding="utf-8")
    (one,) = found(book)
    assert "half reads '0.6000'" in one


def test_a_number_of_another_chapter_and_of_a_page_without_code_are_compared(book):
    change(book / "_book/chapters/two.html", ">8.97</span>", ">8.98</span>")
    change(book / "_book/index.html", ">half</span>", ">a third</span>")
    problems = found(book)
    assert any("two.html" in one and "triple reads '8.98'" in one for one in problems)
    assert any("index.html" in one and "half is 0.5" in one for one in problems)


def test_a_chapter_prints_what_it_computed_and_another_what_the_ledger_expects(book):
    one, two = (read_page((book / f"_book/chapters/{name}.html").read_text(encoding="utf-8"))
                for name in ("one", "two"))  # fmt: skip
    near = [(c.kind, c.text, c.title) for c in one.claims if c.ids == ("near",)]
    assert [text for _, text, _ in near] == ["0.5001", "half"]
    assert near[1][2].startswith("The near: 0.5001. Expected 0.5004, within 0.001: exact. Source")
    assert [claim.text for claim in two.claims if claim.ids == ("near",)] == ["0.5004"]
    change(book / "_book/chapters/two.html", ">0.5004</span>", ">0.5001</span>")
    (wrong, *_) = found(book)
    assert "near reads '0.5001', the ledger says '0.5004'" in wrong


def test_a_page_whose_words_rest_on_another_chapter_follows_that_chapter(book):
    change(book / "ledger.toml", '"The half"', '"Half of one"')
    report = build(load_project(book), jobs=1)
    assert report.ran == ("chapters/one.qmd",)
    assert "Half of one: 0.5000. Expected" in (book / "_book/index.html").read_text()
    assert "chapters/two.qmd" in report.rendered and found(book) == []


def test_the_table_of_numbers_is_compared(book):
    path = book / "_book/chapters/numbers.html"
    text = path.read_text(encoding="utf-8")
    row = re.search(r'<tr id="number-count">.*?</tr>', text, re.S)[0]
    path.write_text(text.replace(row, row.replace("63,082,496", "63,082,495", 1)))
    assert "count is listed as '63,082,495'" in found(book)[0]
    path.write_text(text.replace(row, ""))
    assert "count is missing from the table" in found(book)[0]


# ---- What Quarto makes of the same sources ----


def as_quarto(book: Path) -> Path:
    """The pages as Quarto writes them for KaTeX: TeX in brackets."""
    site = book / "_site"
    shutil.copytree(book / "_book", site)
    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        text = re.sub(
            r'<span class="claim-formula"[^>]*>(<span class="math display">.*?</span>)</span>',
            lambda one: one[1], text, flags=re.S,
        )  # fmt: skip
        text = re.sub(
            r"<math.*?<annotation[^>]*>(.*?)</annotation></semantics></math>", r"\1", text
        )
        text = re.sub(r'(<span class="math inline">)(.*?)(</span>)', r"\1\\(\2\\)\3", text)
        text = re.sub(
            r'(<span class="math display">)(.*?)(</span>)', r"\1\\[\2\\tag{1.1}\\]\3", text,
            flags=re.S,
        )  # fmt: skip
        path.write_text(text, encoding="utf-8")
    (site / "site_libs").mkdir()
    (site / "site_libs/x.html").write_text('<span class="claim" data-claim="zz">1</span>')
    return site


def test_a_quarto_site_is_read_as_well(book):
    site = as_quarto(book)
    assert problems_of_site(book, site) == []
    page = site / PAGE
    text = page.read_text(encoding="utf-8")
    assert "\\[" in text and "\\(" in text
    page.write_text(text.replace("3.6\\times 10^{-7}", "3.7\\times 10^{-7}"), encoding="utf-8")
    (one,) = problems_of_site(book, site)
    assert "3.6" in one and "missing or changed" in one


def test_a_quarto_site_with_mathml_is_read_as_well(book):
    site = as_quarto(book)
    shutil.copytree(book / "_book", site, dirs_exist_ok=True)
    for path in site.rglob("*.html"):
        text = re.sub(r'<span class="math (?:inline|display)">(.*?</math>)</span>', r"\1",
                      path.read_text(encoding="utf-8"))  # fmt: skip
        path.write_text(re.sub(r"( ?</annotation>)", r"\\qquad(1.1)\1", text), encoding="utf-8")
    assert "qquad(1.1)</annotation></semantics></math>" in (site / PAGE).read_text()
    assert problems_of_site(book, site) == []


def test_one_page_alone_can_be_read(book):
    alone = book / "alone"
    (alone / "chapters").mkdir(parents=True)
    shutil.copy(book / "_book" / PAGE, alone / PAGE)
    assert problems_of_site(book, alone) == []


# ---- The freeze itself ----


@pytest.mark.parametrize(
    "key, value, said",
    [
        ("value", 0.6, "was computed as 0.6, which is outside 0.5 ± 0"),
        ("shown", "0.6000", "is shown as 0.6000, where the ledger gives 0.5000"),
        ("expected", "0.6000", "is expected as 0.6000"),
        ("value", "__import__('os').system('x')", "was computed as __import__"),
        ("id", "zz", "the ledger has no such entry"),
    ],
)
def test_a_frozen_number_that_the_ledger_denies_is_named(book, key, value, said):
    path = book / "_freeze/chapters/one/execute-results/numbers.json"
    numbers = json.loads(path.read_text(encoding="utf-8"))
    next(row for row in numbers["numbers"] if row["id"] == "half")[key] = value
    path.write_text(json.dumps(numbers), encoding="utf-8")
    assert any(said in one for one in found(book)), found(book)


def test_a_broken_ledger_and_an_empty_folder_are_problems(book, tmp_path):
    (tmp_path / "empty").mkdir()
    assert problems_of_site(book, tmp_path / "empty") == ["empty:0: holds no page"]
    (book / "ledger.toml").write_text("[half]\nvalue = ")
    assert found(book)[0].startswith("ledger.toml:2: is not TOML")


# ---- Parts ----


@pytest.mark.parametrize(
    "text, formula",
    [
        ("7.0711", "7.0711"),
        ("−0.5", "-0.5"),
        ("63,082,496", "63{,}082{,}496"),
        ("[0.1, 0.2]", "[0.1, 0.2]"),
        ("3.6×10⁻⁷", r"3.6\times 10^{-7}"),
        ("12.5%", r"12.5\%"),
        ("1.5\u00a0MB", r"1.5\,\mathrm{MB}"),
        ("not yet", r"\mathrm{not\ yet}"),
        ("a_b", r"\mathrm{a}\_\mathrm{b}"),
    ],
)
def test_tex_is_spelled_as_the_filter_spells_it(text, formula):
    from test_filters import pandoc

    assert tex(text) == formula
    html = pandoc(f'$[{text}]{{.claim data-claim="x" title="t"}}$', "claims")
    drawn = re.search(r'"math inline">(.*?)</span>', html)[1]
    assert drawn == formula.replace("&", "&amp;")


def test_expectations_are_read_from_markdown_but_not_from_its_code():
    claim = '[7.0]{.claim data-claim="a" title="t"}'
    nested = claim.replace("[7.0]", "[[1, [2]]]")
    text = f"{claim}\n\n```\n{claim}\n```\n\n`{claim}` and $x = {claim}$ {nested}"
    expected = expected_of(text)
    assert expected.claims == {("claim", "a 7.0"): 1, ("claim", "a [1, [2]]"): 1}
    assert expected.formulas == {"x=7.0": 1}


def test_the_hook_can_use_it_with_the_standard_library_alone():
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import bookbuild.claims_check; "
        "print(*sorted({n.split('.')[0] for n in sys.modules} - set(sys.stdlib_module_names)))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-I", "-c", code, str(CODE)], capture_output=True, text=True
    )
    assert (done.stdout.split(), done.stderr) == (["__main__", "bookbuild", "ledger"], "")


def test_the_command_counts_what_it_read_and_names_what_is_wrong(book):
    done = CliRunner().invoke(main, ["check-site", "-C", str(book)])
    assert (done.exit_code, done.stdout) == (
        0,
        "24 verified numbers on 5 pages: all as the ledger says\n",
    )
    change(book / "_book" / PAGE, ">yes</span>", ">no</span>")
    done = CliRunner().invoke(main, ["check-site", "-C", str(book), str(book / "_book")])
    assert done.exit_code == 1
    assert done.stdout == "24 verified numbers on 5 pages: 3 problems\n"
    assert "same reads 'no', the ledger says 'yes'" in done.stderr
