"""Each Lua filter alone: what goes in as NAME.md comes out as NAME.expected.html, or is refused."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from bookbuild.pages import AFTER_CITATIONS, BEFORE_CITATIONS, FILTERS, pandoc_path

PAIRS = Path(__file__).parent / "filters"
NAMES = [*BEFORE_CITATIONS, *AFTER_CITATIONS]
# Any assignment to a name that is not local, while a filter loads or runs, is an error.
STRICT = """
setmetatable(_G, {{__newindex = function(_, name) error("assigns the global " .. name, 0) end}})
return dofile("{path}")
"""


def pandoc(markdown, *filters, env=None):
    """HTML of `markdown` after the filters (names or paths), or what they said as ValueError."""
    command = [str(pandoc_path()), "--to=html5", "--katex", "--wrap=none"]
    command += [f"-L{f if isinstance(f, Path) else FILTERS / f'{f}.lua'}" for f in filters]
    done = subprocess.run(
        command,
        input=markdown,
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, **(env or {})},
    )
    if done.returncode:
        raise ValueError(done.stderr)
    return done.stdout


def strict(name, folder):
    path = folder / f"{name}.lua"
    path.write_text(STRICT.format(path=(FILTERS / f"{name}.lua").as_posix()), encoding="utf-8")
    return path


@pytest.mark.parametrize("source", sorted(PAIRS.glob("*.md")), ids=lambda path: path.stem)
def test_a_filter_gives_the_expected_html_and_assigns_no_global(source, tmp_path):
    expected = source.with_suffix(".expected.html").read_text(encoding="utf-8")
    html = pandoc(source.read_text(encoding="utf-8"), strict(source.stem, tmp_path))
    assert html.strip().replace("\u00a0", "&nbsp;") == expected.strip()


@pytest.mark.parametrize(
    "name", ["verified-numbers", "environment-table", "how-sure", "speed", "backends", "finish"]
)
def test_the_other_filters_assign_no_global_either(name, tmp_path):
    assert {path.stem for path in PAIRS.glob("*.md")} == {*NAMES} - {
        "verified-numbers",
        "environment-table",
        "how-sure",
        "speed",
        "backends",
        "finish",
    }
    markdown = "# Title\n\n::: {.verified-numbers}\n:::\n\n::: {.environment-table}\n:::\n"
    markdown += "\n::: {.sure-summary}\n:::\n\n::: {.backends-table}\n:::\n"
    pandoc(
        f"---\ntitle: T\n---\n\n{markdown}",
        strict(name, tmp_path),
        env={"BOOK_ROOT": str(tmp_path)},
    )


def test_a_forgotten_local_would_be_found(tmp_path):
    leaky = tmp_path / "leaky.lua"
    leaky.write_text("count = 1\nreturn {}\n", encoding="utf-8")
    wrapper = tmp_path / "wrapper.lua"
    wrapper.write_text(STRICT.format(path=leaky.as_posix()), encoding="utf-8")
    with pytest.raises(ValueError, match="assigns the global count"):
        pandoc("x", wrapper)


def test_every_filter_says_what_it_does_and_which_pandoc_it_needs():
    assert {path.stem for path in FILTERS.glob("*.lua")} == set(NAMES)
    for name in NAMES:
        text = (FILTERS / f"{name}.lua").read_text(encoding="utf-8")
        header = re.match(r"--\[\[ .*?\nIn:  .*?\nOut: .*?\]\]\n", text, re.DOTALL)
        assert header, f"{name}.lua has no header with In and Out"
        assert "PANDOC_VERSION:must_be_at_least(" in text
        assert "warn(" not in text


REFUSED = [
    ("vocabulary", "::: {.callout-danger}\nx\n:::", "`callout-danger` is not a kind of callout"),
    ("vocabulary", "::: {.content-visible}\nx\n:::", "`content-visible` has a meaning in Quarto"),
    ("vocabulary", "::: {.column-page}\nx\n:::", "`column-page` has a meaning in Quarto"),
    ("vocabulary", "::: {.panel-input}\nx\n:::", "`panel-input` has a meaning in Quarto"),
    ("vocabulary", '::: {layout="[[1,2]]"}\nx\n:::', "`layout` is an attribute that this build"),
    ("vocabulary", "![x](x.svg){fig-align=left}", "`fig-align` is an attribute that this build"),
    ("vocabulary", "::: {#thm-a}\nx\n:::", "`thm-a` is a label of a kind"),
    ("vocabulary", "a {{< video x >}} b", "is a shortcode of Quarto"),
    ("vocabulary", "<table><tr></tr></table>", "`<table>` is a raw html block"),
    ("vocabulary", "\\begin{x}\ny\n\\end{x}", "is a raw tex block"),
    ("vocabulary", "a \\foo{x} b", "`\\foo{x}` is raw tex, which a page would drop"),
    ("vocabulary", "a[^none] b", "`[^none]` is a footnote that is not defined"),
    ("vocabulary", "a `{python} 1` b", "`{python} 1` is a cell or an expression that was not"),
    ("vocabulary", "```{mermaid}\nx\n```", "`{mermaid} x` is a cell or an expression that was not"),
    (
        "callouts",
        "::: {.callout-tip appearance=odd}\nx\n:::",
        "is default or simple or minimal, not",
    ),
    ("callouts", "::: {.callout-tip collapse=true appearance=simple}\nx\n:::", "needs a title"),
    ("tabsets", "::: {.panel-tabset}\nx\n:::", "must begin with a heading"),
    ("sections", "text", "the page has no title"),
    ("sections", "---\ntitle: A\n---\n\n# B", "`B` is a second title"),
    ("sections", "# A\n\n# B", "`B` is a heading of level 1"),
    ("sections", "# A\n\n### B", "`B` is a heading that skips a level"),
    ("sections", "# A\n\n::: {.x}\n## B\n:::", "`B` is a heading inside another block"),
    ("equations", "$x$ {#eq-a}", "`{#eq-a}` is a label that belongs to nothing"),
    ("floats", "![](a.svg){#fig-a}", "`fig-a` needs a caption"),
    ("floats", "![A](a.svg){#tbl-a}", "`tbl-a` labels a figure"),
    ("floats", "::: {#tbl-a}\ntext\n\nCaption.\n:::", "`tbl-a` labels no table"),
    ("floats", "::: {#fig-a}\n![A](a.svg)\n:::", "`fig-a` needs a caption"),
    ("floats", '::: {.cell tbl-cap="A"}\nx\n:::', "`tbl-cap` needs a label"),
    ("floats", '``` {lst-cap="A"}\nx\n```', "needs a label that begins with lst-"),
    ("floats", "::: {.x layout-ncol=two}\nx\n:::", "`layout-ncol` must be a whole number"),
    ("cells", '``` {code-fold="maybe"}\nx\n```', "`code-fold` cannot be maybe here"),
    ("references", "see @Fig-line", "`@Fig-line` must be written in lower case"),
    ("references", "[@fig-a; @vaswani2017]", "stands in one bracket with a citation"),
    ("references", "[@fig-a, left]", "`@fig-a` is followed by text inside its brackets"),
    ("claims", '$[1]{.claim data-claim="a$', "holds a claim that does not end"),
    ("claims", '$1]{.claim data-claim="a"}$', "holds a claim whose bracket does not open"),
]


# Runs each case in one pandoc: {filter, markdown} -> what was said, or "" where nothing was.
CASES = """
local cases = pandoc.json.decode(io.read("a"), false)
local said = pandoc.List({})
for _, case in ipairs(cases) do
  local ok, message = pcall(function()
    return pandoc.utils.run_lua_filter(pandoc.read(case.markdown, "markdown"), case.filter)
  end)
  said:insert(ok and "" or tostring(message))
end
io.write(pandoc.json.encode(said))
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    script = tmp_path_factory.mktemp("cases") / "cases.lua"
    script.write_text(CASES, encoding="utf-8")
    cases = [{"filter": str(FILTERS / f"{n}.lua"), "markdown": m} for n, m, _ in REFUSED]
    command = [str(pandoc_path()), "lua", str(script)]
    answer = subprocess.run(
        command, input=json.dumps(cases).encode(), capture_output=True, check=True
    )
    return json.loads(answer.stdout)


@pytest.mark.parametrize("case", range(len(REFUSED)), ids=lambda i: REFUSED[i][2][:40])
def test_what_is_not_known_is_refused(said, case):
    assert REFUSED[case][2] in said[case]
    told = said[case].split("stack traceback")[0]
    assert not re.search(r"\.lua:\d", told), "a place in the filter is of no use to a writer"


# Numbers in formulas.


def say(text, number=0):
    return f'[{text}]{{.claim data-claim="id-{number}" title="What. Expected 7.0, it’s {{so}}."}}'


def plain(tex):
    """TeX of a number -> the text that a reader sees."""
    superscript = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
    tex = re.sub(r"\^\{([-\d]+)\}", lambda power: power.group(1).translate(superscript), tex)
    tex = re.sub(r"\\mathrm\{(\w+)\}", r"\1", tex)
    for spelled, shown in (("{,}", ","), ("\\times ", "×"), ("\\,", "\u00a0"), ("\\%", "%")):
        tex = tex.replace(spelled, shown)
    return tex.replace("-", "−")


def test_no_digit_sign_or_full_stop_of_a_number_is_lost_in_a_formula():
    numbers = ["7.0711", "4.00", "0.", ".5", "−0.5", "63,082,496", "1,000", "44.5%", "12.5\u00a0MB"]
    numbers += [
        "3.6×10⁻⁷",
        "1.0×10¹²",
        "[0.167, 0.333, 0.500]",
        "(2, 100, 100)",
        "[[1, 2], [3, 4]]",
    ]
    numbers += [f"{sign}{n:{form}}" for sign in ("", "−") for n in (0.1 + 0.2, 7, 1e6, 12345.678)
                for form in (".0f", ".4f", ",.2f", ".7f")]  # fmt: skip
    markdown = "\n\n".join(f"$x = {say(text, i)}$" for i, text in enumerate(numbers))
    html = pandoc(markdown, "claims")
    shown = re.findall(
        r'data-claims="id-(\d+)" title="[^"]*"><span class="math inline">x = (.*?)</span>', html
    )
    assert [int(number) for number, _ in shown] == list(range(len(numbers)))
    assert [plain(tex) for _, tex in shown] == numbers
    assert "claim data-claim" not in html


def test_a_claim_in_prose_stays_what_pandoc_makes_of_it():
    html = pandoc(f"Row 34 is {say('7.0711')} long.", "claims")
    assert (
        '<span class="claim" data-claim="id-0" title="What. Expected 7.0, it’s {so}.">7.0711</span>'
        in html
    )


# Tables made from the freeze.


def freeze(folder, chapter, title, numbers, libraries, markdown=""):
    results = folder / "_freeze" / chapter.removesuffix(".qmd") / "execute-results"
    results.mkdir(parents=True)
    record = {"format": 1, "freeze": "0", "chapter": chapter, "title": title, "numbers": numbers}
    record["environment"] = {"python": "3.11.2"}
    for name, content in (
        ("numbers", record),
        ("inputs", {"format": 1, "libraries": libraries}),
        ("html", {"result": {"markdown": markdown}}),
    ):
        (results / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")


def number(id, cell, **changed):
    return {
        "id": id, "cell": cell, "statement": "Length of a row", "shown": "7.0711",
        "expected": "7.0710678", "tolerance": "2e-06", "reason": "float32", "source": "√(d/2)",
        "value": 7.07, "deviation": 0.25, **changed,
    }  # fmt: skip


@pytest.fixture
def frozen_book(tmp_path):
    """Two chapters with three numbers; the book's order is not the alphabet's."""
    (tmp_path / "_quarto.yml").write_text("chapters: [chapters/z.qmd, chapters/a.qmd]\n")
    exact = number("count", "gone", shown="7,131", tolerance="exact", deviation=None)
    freeze(tmp_path, "chapters/a.qmd", "Alpha", [exact], {"numpy": "2.4.6", "keras": "3.15.1"})
    cells = (
        "::: {#norm .cell execution_count=1}\n:::\n::: {#cell-plot .cell execution_count=2}\n:::"
    )
    numbers = [number("pe-norm", "norm"), number("pe-plot", "plot", deviation=0.0)]
    freeze(tmp_path, "chapters/z.qmd", "Zulu", numbers, {"numpy": "2.4.6"}, cells)
    return {"BOOK_ROOT": str(tmp_path)}


def test_verified_numbers_become_a_table_a_chapter_in_book_order(frozen_book):
    html = pandoc("::: {.verified-numbers}\n:::", "verified-numbers", env=frozen_book)
    assert re.findall(r'<h2 id="([^"]+)">(.*?)</h2>', html) == [
        ("numbers-z", "Zulu"),
        ("numbers-a", "Alpha"),
    ]
    assert re.findall(r'<tr id="([^"]+)"', html) == [
        "number-pe-norm",
        "number-pe-plot",
        "number-count",
    ]
    links = re.findall(r'<a href="([^"]+)">(.*?)</a>', html)
    assert links == [
        ("/chapters/z.qmd#norm", "7.0711"),
        ("/chapters/z.qmd#cell-plot", "7.0711"),
        ("/chapters/a.qmd", "7,131"),  # its cell is not on the page
    ]
    rows = re.findall(r"<tr id=.*?</tr>", html, re.DOTALL)
    cells = [re.sub(r"<[^>]+>", " ", row).split() for row in rows]
    assert cells[0] == [
        "7.0711",
        *["Length", "of", "a", "row", "pe-norm", "7.0710678", "2e-06", "float32", "0.25", "√(d/2)"],
    ]
    assert cells[1][-2:] == ["0", "√(d/2)"]
    assert cells[2][-4:] == ["exact", "float32", "—", "√(d/2)"]


def test_the_summary_counts_numbers_and_chapters(frozen_book):
    html = pandoc("::: {.verified-summary}\n:::", "verified-numbers", env=frozen_book)
    assert html.startswith("<p>3 verified numbers in 2 chapters: ")


def test_an_unknown_format_of_numbers_is_refused(frozen_book, tmp_path):
    file = tmp_path / "_freeze/chapters/a/execute-results/numbers.json"
    file.write_text(file.read_text().replace('"format": 1', '"format": 2'))
    with pytest.raises(ValueError, match=r"`numbers\.json` of chapters/a\.qmd has format 2, not 1"):
        pandoc("::: {.verified-numbers}\n:::", "verified-numbers", env=frozen_book)


def test_the_freeze_may_lie_elsewhere(frozen_book, tmp_path):
    (tmp_path / "_freeze").rename(tmp_path / "made")
    nothing = pandoc("::: {.verified-summary}\n:::", "verified-numbers", env=frozen_book)
    assert "No number has been verified yet." in nothing
    moved = {**frozen_book, "BOOK_FREEZE": str(tmp_path / "made")}
    assert "3 verified numbers" in pandoc(
        "::: {.verified-summary}\n:::", "verified-numbers", env=moved
    )


def test_the_environment_is_a_table_of_versions_and_chapters(frozen_book):
    html = pandoc("::: {.environment-table}\n:::", "environment-table", env=frozen_book)
    rows = [
        re.sub(r"<[^>]+>", " ", row).split() for row in re.findall(r"<tr>.*?</tr>", html, re.DOTALL)
    ]
    assert rows == [
        ["Library", "Version", "Chapters"],
        ["Python", "3.11.2", "all"],
        ["keras", "3.15.1", "Alpha"],
        ["numpy", "2.4.6", "all"],
    ]
    assert '<a href="/chapters/a.qmd">Alpha</a>' in html


def test_two_versions_of_one_library_are_two_rows(frozen_book, tmp_path):
    file = tmp_path / "_freeze/chapters/a/execute-results/inputs.json"
    file.write_text(file.read_text().replace("2.4.6", "2.4.4"))
    html = pandoc("::: {.environment-table}\n:::", "environment-table", env=frozen_book)
    assert re.findall(r"<td>numpy</td>\s*<td><code>(.*?)</code></td>", html) == ["2.4.4", "2.4.6"]
