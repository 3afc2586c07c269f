"""What a cell did, as Markdown: written by hand here, as Quarto's own output looks."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bookbuild.outputs import UnknownOutput, cell_markdown, inline_markdown
from bookbuild.source import Cell

timeless = settings(deadline=None)  # a busy machine is not a failure


def stream(text, name="stdout"):
    return {"output_type": "stream", "name": name, "text": text}


def result(text, count=3, **data):
    kinds = {"text/plain": text} | {kind.replace("_", "/"): value for kind, value in data.items()}
    return {"output_type": "execute_result", "data": kinds, "execution_count": count}


def figure(svg="<svg/>"):
    return {
        "output_type": "display_data",
        "data": {"image/svg+xml": svg, "text/plain": "<Figure size 700x500 with 1 Axes>"},
    }


def markdown(text):
    data = {"text/markdown": text, "text/plain": "<IPython.core.display.Markdown object>"}
    return {"output_type": "display_data", "data": data}


def made(*outputs, code="x", label="a", **options):
    options = {key.replace("_", "-"): value for key, value in options.items()}
    return cell_markdown(Cell(code, 1, 3, {"label": label, **options}), outputs, 7, "one_files")


def text(*outputs, **options):
    return made(*outputs, **options).text


SOURCE = "``` {.python .cell-code}\nx\n```\n"
PRINTED = "\n::: {.cell-output .cell-output-stdout}\n```\nhello\n```\n:::\n"


def test_code_and_what_it_printed():
    assert (
        text(stream("hello\n")) == f"::: {{#a .cell execution_count=7}}\n{SOURCE}{PRINTED}:::\n\n"
    )


def test_a_print_without_a_last_line_end_gets_one():
    assert PRINTED in text(stream("hello"))


def test_echo_false_hides_the_code_only():
    assert text(stream("hello\n"), echo=False) == (
        f"::: {{#a .cell execution_count=7}}\n{PRINTED}:::\n\n"
    )


def test_output_false_hides_what_was_shown_only():
    assert text(stream("hello\n"), result("3"), output=False) == (
        f"::: {{#a .cell execution_count=7}}\n{SOURCE}:::\n\n"
    )


def test_include_false_hides_everything():
    assert made(stream("hello\n"), figure(), include=False) == made(include=False)
    assert text(include=False) == ""


def test_output_asis_is_markdown_of_the_page():
    assert text(stream("**bold**\n"), output="asis") == (
        f"::: {{#a .cell execution_count=7}}\n{SOURCE}**bold**\n:::\n\n"
    )


def test_a_value_takes_the_label_and_the_cell_a_derived_one():
    assert text(result("42")) == (
        f"::: {{#cell-a .cell execution_count=7}}\n{SOURCE}"
        "\n::: {#a .cell-output .cell-output-display execution_count=3}\n```\n42\n```\n:::\n"
        ":::\n\n"
    )


def test_streams_are_joined_by_kind_and_come_before_values():
    outputs = [stream("a\n"), stream("e\n", "stderr"), result("42"), stream("b\n")]
    shown = text(*outputs)
    assert "```\na\nb\n```" in shown
    assert shown.index("b\n```") < shown.index("cell-output-stderr") < shown.index("42")


def test_warning_false_hides_standard_error_only():
    shown = text(stream("hello\n"), stream("careful\n", "stderr"), warning=False)
    assert PRINTED in shown and "careful" not in shown


def test_an_allowed_error_shows_its_kind_and_text_without_a_traceback():
    error = {
        "output_type": "error",
        "ename": "ValueError",
        "evalue": "no",
        "traceback": ["File /home/x"],
    }
    assert text(error, error=True).endswith(
        "\n::: {.cell-output .cell-output-error}\n```\nValueError: no\n```\n:::\n:::\n\n"
    )


def test_classes_and_unknown_to_quarto_options_go_to_the_cell():
    head = text(classes="wide .tall", filename="it's.py", class_output="big").splitlines()[0]
    assert head == (
        r"::: {#a .cell .wide .tall class-output='big' filename='it\'s.py' execution_count=7}"
    )


def test_listing_and_code_options_go_to_the_code():
    shown = text(
        lst_label="lst-a", lst_cap="A listing.", code_fold=True, code_summary="Show",
        code_line_numbers=False,
    )  # fmt: skip
    assert (
        '``` {#lst-a .python .cell-code lst-cap="A listing." code-fold="true"'
        ' code-summary="Show" code-line-numbers="false"}\nx\n```\n'
    ) in shown


def test_a_figure_with_caption_and_alternative_text():
    cell = made(figure("<svg>1</svg>"), label="fig-a", fig_cap="A *line*.", fig_alt="It's up.")
    assert cell.figures == {"fig-a-output-1.svg": "<svg>1</svg>"}
    assert (
        "\n::: {.cell-output .cell-output-display}\n"
        "![A *line*.](one_files/figure-html/fig-a-output-1.svg)"
        r"{#fig-a fig-alt='It\'s up.'}"
        "\n:::\n"
    ) in cell.text


def test_several_figures_get_subcaptions_labels_and_a_caption_below():
    cell = made(
        figure("1"), figure("2"), label="fig-a", fig_cap="Both.", fig_subcap=["Left.", "Right."],
        fig_alt=["left", "right"], layout_ncol=2,
    )  # fmt: skip
    assert cell.text.startswith("::: {#fig-a .cell layout-ncol='2' execution_count=7}\n")
    assert (
        "![Left.](one_files/figure-html/fig-a-output-1.svg){#fig-a-1 fig-alt='left'}" in cell.text
    )
    right = "![Right.](one_files/figure-html/fig-a-output-2.svg){#fig-a-2 fig-alt='right'}"
    assert right in cell.text
    assert cell.text.endswith(":::\n\nBoth.\n:::\n\n")
    assert list(cell.figures) == ["fig-a-output-1.svg", "fig-a-output-2.svg"]


def test_a_print_before_figures_does_not_shift_their_alternative_texts():
    cell = made(stream("hello\n"), figure(), figure(), label="fig-a", fig_alt=["left", "right"])
    assert cell.text.index("fig-alt='left'") < cell.text.index("fig-alt='right'")


def test_a_table_keeps_the_label_at_its_cell():
    shown = text(markdown("| a |\n|---|\n| 1 |"), label="tbl-a", tbl_cap="A table.")
    assert shown.startswith("::: {#tbl-a .cell tbl-cap='A table.' execution_count=7}\n")
    assert "\n::: {.cell-output .cell-output-display .cell-output-markdown}\n| a |\n" in shown


@pytest.mark.parametrize(
    "plain", ["[<matplotlib.lines.Line2D at 0x7f00>]", "<matplotlib.legend.Legend at 0x7f00>"]
)
def test_the_object_that_a_plotting_call_returns_is_not_shown(plain):
    assert "matplotlib" not in text(result(plain), figure(), label="fig-a", fig_cap="A.")
    assert "matplotlib" not in text(result(plain))


def test_a_value_without_a_figure_is_shown_even_in_brackets():
    assert "\n(1, 2)\n" in text(result("(1, 2)"))


def test_png_figures_keep_their_data():
    output = {"output_type": "display_data", "data": {"image/png": "iVBO", "text/plain": "<F>"}}
    assert made(output).figures == {"a-output-1.png": "iVBO"}


@timeless
@given(st.text("`ab\n", min_size=1, max_size=12))
def test_a_fence_is_longer_than_any_run_of_ticks_inside(content):
    lines = text(stream(content)).split(SOURCE)[1].splitlines()
    fence = lines[2]
    assert set(fence) == {"`"} and fence not in content
    assert lines[-4] == fence


def test_html_is_refused_because_quarto_adds_a_script_for_it():
    with pytest.raises(UnknownOutput, match="shows HTML, for which Quarto would add a script"):
        text(result("<DataFrame>", text_html="<table/>"))


@pytest.mark.parametrize("kind", ["text/latex", "application/json", "image/jpeg"])
def test_a_form_that_is_not_printed_is_refused_and_not_replaced_by_its_repr(kind):
    data = {kind: "$x$", "text/plain": "<IPython.core.display.Latex object>"}
    with pytest.raises(UnknownOutput, match=f"shows {kind}, text/plain; the book prints"):
        text({"output_type": "display_data", "data": data})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fig_cap": "A."}, "has one fig-cap for 2 displays; add fig-subcap, or show one"),
        ({"fig_subcap": ["a"]}, "has 1 captions in fig-subcap for 2 figures; give each"),
        ({"fig_alt": ["a"]}, "has 1 texts in fig-alt for 2 figures; give one for each"),
    ],
)
def test_texts_that_do_not_match_the_figures_are_refused(options, message):
    with pytest.raises(UnknownOutput, match=message):
        text(figure(), figure(), label="fig-a", **options)


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        ({"text/plain": "42"}, "42"),
        ({"text/plain": "'a_b*c'"}, r"a\_b\*c"),
        ({"text/plain": "'7.0711'"}, r"7\.0711"),
        ({"text/plain": "'"}, "'"),
        ({"text/plain": "(1, 2)"}, "(1, 2)"),
        ({"text/plain": "<M>", "text/markdown": "**b**"}, "**b**"),
        ({"text/plain": "<H>", "text/html": "<b>x</b>"}, "`<b>x</b>`{=html}"),
    ],
)
def test_values_of_inline_expressions(data, shown):
    assert inline_markdown(data) == shown


@pytest.mark.parametrize("kind", ["text/latex", "image/svg+xml"])
def test_an_inline_figure_or_formula_is_refused(kind):
    with pytest.raises(UnknownOutput, match=f"shows {kind.replace('+', '.')}"):
        inline_markdown({kind: "x", "text/plain": "<object>"})
