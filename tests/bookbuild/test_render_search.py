"""What the search looks through and what links show, made from small pages."""

import json

import pytest

from bookbuild.render_cards import card_of, cards_script, cut
from bookbuild.render_search import names_in, readable_formula, search_script, sections_of
from bookbuild.render_tree import parse_tree

PAGE = """
<p>Before the first heading.</p>
<section id="sec-a" class="level2" data-number="1.1">
<h2><span class="header-section-number">1.1</span> The <code>key_dim</code> of a head</h2>
<p>It says <span class="claim" title="Expected 8.">8</span>, or
<span class="math inline">\\sqrt{d_k}</span>&nbsp;&lt; d<sub>k</sub>.</p>
<div class="cell">
<details><summary>Imports</summary>
<div class="sourceCode"><pre class="python"><code><span class="im">import</span> numpy
layer = MultiHeadAttention(num_heads=4)  # a comment
print("a string")</code></pre></div></details>
<div class="cell-output cell-output-stdout"><pre><code>printed</code></pre></div>
<div class="cell-output cell-output-display"><figure id="fig-a"><img src="x.svg" alt="seen">
<figcaption>Figure 1.1: What is drawn.</figcaption></figure></div>
</div>
<section id="sec-b" class="level3"><h3>Deeper</h3><p>Down here.</p></section>
</section>
"""


def by_id(body, path="chapters/a.html"):
    return {section.id: section for section in sections_of(path, "1", "Title", body)}


def test_a_section_ends_where_the_next_heading_begins():
    found = by_id(PAGE)
    assert list(found) == ["", "sec-a", "sec-b"]
    assert found[""].text == "Before the first heading."
    assert (found["sec-a"].number, found["sec-a"].heading) == ("1.1", "The key_dim of a head")
    assert "Down here." not in found["sec-a"].text
    assert (found["sec-b"].heading, found["sec-b"].text) == ("Deeper", "Down here.")


def test_what_code_prints_is_not_searched_and_captions_are():
    text = by_id(PAGE)["sec-a"].text
    assert text == "It says 8, or √d_k < d_k. Figure 1.1: What is drawn."


def test_of_code_the_names_are_searched_and_neither_strings_nor_comments():
    assert by_id(PAGE)["sec-a"].names == "import numpy layer MultiHeadAttention num_heads print"
    assert names_in('x = f\'{value}\' # said\ny = """a\nb"""\nmask_zero(mask_zero)') == "mask_zero"


@pytest.mark.parametrize(
    ("tex", "text"),
    [
        (r"\frac{QK^{\mathsf T}}{\sqrt{d_k}}", "QK^T/√d_k"),
        (r"\mathrm{softmax}\!\left(x+M\right)V", "softmax(x+M)V"),
        (r"\tfrac16\cdot 2", "1/6·2"),
        (r"\frac{a+b}{2}", "(a+b)/2"),
        (r"W^{(i)}_{\text{model}}", "W^(i)_model"),
        (r"10^{-9}", "10^(-9)"),
        (r"\theta_{p,i}\approx\lVert x\rVert", "θ_p,i≈‖x‖"),
        (r"\begin{aligned}a&=b\\c&=d\end{aligned}", "a=b c=d"),
        (r"50\,\%", "50 %"),
    ],
)
def test_a_formula_becomes_a_line_of_text(tex, text):
    assert readable_formula(tex) == text


def test_each_term_and_each_source_is_found_by_itself():
    body = """<section id="sec-g" class="level2"><h2>Terms</h2><dl>
<dt><span id="term-mask">mask</span></dt><dd><p>One bit.</p></dd>
<dt><span id="term-key">key</span></dt><dd>Found by it.</dd></dl></section>
<div id="refs"><p id="ref-a" class="csl-entry">Author. 2017. <i>“A Title.”</i></p></div>"""
    found = by_id(body)
    kinds = {id: (one.kind, one.heading, one.text) for id, one in found.items()}
    assert kinds["term-mask"] == ("term", "mask", "One bit.")
    assert kinds["term-key"] == ("term", "key", "Found by it.")
    assert kinds["ref-a"] == ("reference", "A Title", "Author. 2017. “A Title.”")


def test_hidden_bibliographies_menus_and_the_ledger_are_not_searched():
    body = """<p>Text.</p><div id="refs" hidden><div id="ref-a" class="csl-entry">A</div></div>
<nav><p>menu</p></nav><table><tr id="number-x"><td>1.5</td></tr></table>"""
    (only,) = sections_of("a.html", "", "A", body)
    assert only.text == "Text."


def test_the_index_is_a_script_that_names_pages_by_their_place():
    script = search_script(
        {"index.html": ("", "Preface", "<p>One</p>"), "a.html": ("1", "A", PAGE)}
    )
    index = json.loads(script.removeprefix("window.bookSearchIndex=").rstrip(";\n"))
    assert index["pages"] == [["index.html", "", "Preface"], ["a.html", "1", "A"]]
    assert [row[:3] for row in index["sections"]] == [
        [0, "", ""], [1, "", "1"], [1, "sec-a", "1.1"], [1, "sec-b", ""],
    ]  # fmt: skip


# ---- Cards ----


def cards(**bodies):
    pages = {f"chapters/{name}.html": ("1", name, "", body) for name, body in bodies.items()}
    script = cards_script(pages)
    return json.loads(script.removeprefix("window.bookCards=").rstrip(";\n"))


def test_only_what_a_page_links_to_has_a_card():
    found = cards(a='<p><a href="b.html#sec-a">x</a></p>', b=PAGE)
    assert list(found) == ["chapters/b.html#sec-a"]
    kind, html = found["chapters/b.html#sec-a"]
    assert kind == "section"
    assert html.startswith("<p><strong>1.1 The key_dim of a head</strong></p><p>It says 8, or")


def test_a_card_is_free_of_ids_styles_and_marks_and_its_addresses_begin_at_the_root():
    found = cards(
        a='<p><a href="#fig-a">x</a></p><figure id="fig-a" style="width: 1px">'
        '<img id="i" src="a_files/x.svg" alt="A &lt; B" style="width: 9%" onerror="x">'
        '<figcaption>Figure 1: <a href="b.html#fig-z" id="q">there</a> '
        '<span class="claim" data-claim="c" title="t">8</span></figcaption></figure>',
    )
    assert found == {
        "chapters/a.html#fig-a": [
            "figure",
            '<img alt="A &lt; B" src="chapters/a_files/x.svg">'
            '<p>Figure 1: <a href="chapters/b.html#fig-z">there</a> 8</p>',
        ]
    }


def test_a_formula_keeps_its_tex_and_its_number():
    body = (
        '<p><a href="#eq-a">x</a><span id="eq-a" class="equation"><span class="math display">a&lt;b'
        '</span><span class="eq-number">(1.4)</span></span></p>'
    )
    assert cards(a=body)["chapters/a.html#eq-a"] == [
        "equation",
        '<p><strong>Equation (1.4)</strong></p><span class="math display">a&lt;b</span>',
    ]


@pytest.mark.parametrize(("rows", "shown", "more"), [(5, 5, ""), (6, 4, "… and 2 more rows")])
def test_a_table_shows_its_first_rows(rows, shown, more):
    body = "".join(f'<tr><td style="text-align: right;">{n}</td></tr>' for n in range(rows))
    html = f"""<p><a href="#tbl-a">x</a></p><div id="tbl-a"><figure><figcaption>T</figcaption>
<table><thead><tr><th>n</th></tr></thead><tbody>{body}</tbody></table></figure></div>"""
    _, card = cards(a=html)["chapters/a.html#tbl-a"]
    tree = parse_tree(card)
    cells = [node for node in tree.elements() if node.tag == "td"]
    assert [cell.text() for cell in cells] == [str(n) for n in range(shown)]
    assert all(cell.classes == ["align-right"] for cell in cells)
    assert ("more rows" in card) == bool(more) and more in card


def test_a_chapter_is_shown_by_its_first_paragraph():
    found = cards(a='<p><a href="b.html">x</a></p>', b="<p>First.</p><p>Second.</p>")
    assert found["chapters/b.html"] == ["section", "<p><strong>1 b</strong></p><p>First.</p>"]


def test_a_long_text_is_cut_at_a_word_and_never_inside_a_formula():
    tree = parse_tree(
        "<p>" + "word " * 30 + '<span class="math inline">x^2</span> end' * 9 + "</p>"
    )
    text = cut(tree.children[0], 148).text()
    assert text.endswith("word …") or text.endswith("x^2 …") or text.endswith("x^2")
    assert len(text) < 170
    short = parse_tree("<p>A short one.</p>").children[0]
    assert cut(short, 5) is short  # what is only a little too long stays whole


def test_what_has_no_preview_has_none():
    tree = parse_tree('<p id="other">x</p>')
    assert card_of("a.html", tree.children[0], tree) is None


def test_what_a_page_keeps_for_the_scripts_is_what_all_pages_together_would_give(tmp_path):
    from types import SimpleNamespace

    from bookbuild.render_cards import FILE as CARDS
    from bookbuild.render_finding import NOTE, finding_scripts
    from bookbuild.render_search import FILE as INDEX

    def book(text):
        bodies = {
            "a.html": f'<p>{text} <a href="b.html#fig-x">there</a> <a href="b.html">b</a></p>',
            "b.html": '<section id="sec-b"><h2>B</h2><p>In b.</p><figure id="fig-x">'
            '<img src="x.svg" alt="An x"><figcaption>An x</figcaption></figure></section>',
        }
        chapters = [SimpleNamespace(path=f"{p[0]}.qmd", href=p, number="1") for p in bodies]
        fragments = {
            one.path: SimpleNamespace(body=bodies[one.href], text="T", id="sec-t", references="")
            for one in chapters
        }
        project = SimpleNamespace(chapters=chapters)
        book = SimpleNamespace(project=project, fragments=fragments, references=None, targets={})
        index = search_script({p: ("1", "T", body) for p, body in bodies.items()})
        cards = cards_script({p: ("1", "T", "sec-t", body) for p, body in bodies.items()})
        return book, {INDEX: index, CARDS: cards}

    for text in ("One.", "Two.", "One."):
        made, whole = book(text)
        assert dict(finding_scripts(made, tmp_path)) == whole
        assert dict(finding_scripts(made)) == whole
    assert (tmp_path / NOTE).is_file()
