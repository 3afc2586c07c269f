"""Formulas as pages hold them: through pandoc, and set as TeX's rules of spacing want them."""

import subprocess

import pytest
from bs4 import BeautifulSoup

from bookbuild.pages import pandoc_path
from bookbuild.render_formulas import set_formulas
from bookbuild.render_tree import parse_tree


def drawn(tex: str, *, display: bool = False) -> BeautifulSoup:
    """A formula on its way through pandoc and ours."""
    mark = "$$" if display else "$"
    command = [str(pandoc_path()), "--from=markdown", "--to=html5", "--mathml", "--wrap=none"]
    text = f"{mark}{tex}{mark}"
    done = subprocess.run(command, input=text.encode(), capture_output=True, check=True)
    assert done.stderr == b""
    return BeautifulSoup(set_formulas(done.stdout.decode()), "lxml")


def signs(soup: BeautifulSoup) -> list[str]:
    """What is drawn, piece by piece; distances in brackets."""
    for source in soup.select("annotation"):
        source.decompose()
    found = []
    for part in soup.find_all(["mi", "mn", "mo", "mtext", "mspace"]):
        found.append(f"[{part['width']}]" if part.name == "mspace" else part.get_text())
    return [one for one in found if one != "\u2061"]


def test_a_formula_stands_in_a_span_with_its_tex_beside_it():
    soup = drawn(r"\sqrt{d_k}")
    (span,) = soup.select("span.math.inline")
    assert span.math.attrs == {}
    assert span.annotation.get_text() == r"\sqrt{d_k}"
    assert drawn("x", display=True).select_one("span.math.display > math")["display"] == "block"


def test_words_are_one_element_and_letters_that_are_factors_are_not():
    assert signs(drawn(r"\mathrm{softmax}(ab)")) == ["softmax", "(", "a", "b", ")"]
    (word, letter) = drawn(r"\mathrm{ff}\,\mathrm{T}").find_all("mi")
    assert word.attrs == {}  # several letters are upright by themselves
    assert letter["mathvariant"] == "normal"


@pytest.mark.parametrize(
    "tex, expected",
    [
        (r"\log 2", ["log", "[0.167em]", "2"]),
        (r"\log(2)", ["log", "(", "2", ")"]),
        (r"-\log x", ["−", "log", "[0.167em]", "x"]),
        (r"w\log w", ["w", "[0.167em]", "log", "[0.167em]", "w"]),
        (r"\sin\theta\sin\phi", ["sin", "[0.167em]", "θ", "[0.167em]", "sin", "[0.167em]", "ϕ"]),
        (r"\sin^2\theta", ["sin", "2", "[0.167em]", "θ"]),
        (r"\sin^2", ["sin", "2"]),
        (r"\sin\frac12", ["sin", "[0.167em]", "1", "2"]),
        (r"\log\log x", ["log", "[0.167em]", "log", "[0.167em]", "x"]),
        (r"(a)\log b", ["(", "a", ")", "[0.167em]", "log", "[0.167em]", "b"]),
        (r"2\,\max\bigl(a\bigr)", ["2", "[0.167em]", "max", "(", "a", ")"]),
    ],
)
def test_functions_keep_a_thin_space_where_tex_does(tex, expected):
    assert signs(drawn(tex)) == expected


def test_thousands_are_one_number_and_lists_stay_lists():
    assert signs(drawn("x = 63{,}082{,}496")) == ["x", "=", "63,082,496"]
    assert signs(drawn("[4, 100]")) == ["[", "4", ",", "100", "]"]


def test_signs_in_raised_and_lowered_places_stand_close_and_others_do_not():
    signs_of = {one.get_text(): one for one in drawn("a + b_{p-q,i}").find_all("mo")}
    assert "lspace" not in signs_of["+"].attrs
    for sign in ("−", ","):
        assert (signs_of[sign]["lspace"], signs_of[sign]["rspace"]) == ("0", "0")


def test_a_ratio_has_room_and_a_sign_at_the_end_has_none():
    (colon,) = drawn("w_E : w_P").find_all("mo")
    assert colon["lspace"] == colon["rspace"] == "0.278em"
    (equals,) = drawn("d =").find_all("mo")
    assert equals["rspace"] == "0"


def test_brackets_grow_only_where_the_source_says_so():
    def stretchy(tex):
        return {one.get("stretchy") for one in drawn(tex).find_all("mo") if one.get("form")}

    assert stretchy(r"\lVert a\rVert^2") == {"false"}
    assert stretchy(r"\left(\frac12\right)") == {"true"}
    assert stretchy(r"\bigl(a\bigr)") == {"true"}  # to the size that it names


def test_aligned_columns_have_classes_for_styles():
    cells = drawn(r"\begin{aligned}a&=b\\ccc&=d\end{aligned}", display=True).find_all("mtd")
    assert [cell["class"] for cell in cells] == [["side-right"], ["side-left"]] * 2
    assert not any(cell.has_attr("style") for cell in cells)


def test_what_reads_a_page_reads_the_tex_once():
    span = str(drawn(r"\mathrm{softmax}(x)").select_one("span"))
    assert parse_tree(f"<p>The {span} of</p>").text() == r"The \mathrm{softmax}(x) of"
