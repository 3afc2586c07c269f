"""Quarto's hooks, called as Quarto calls them, for books that are fresh, stale, tampered, partial.

Quarto itself is not here. Its part is played as its source has it: how it calls a project script,
which cells it runs in which kernel, what it freezes. The stand-in for its Jupyter engine's Markdown
is `bookbuild.outputs`, which is held to Quarto's own output elsewhere.
"""

import io
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import nbformat
import pypandoc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

import bookbuild
from bookbuild.build import plan
from bookbuild.freeze import _json, _markdown, folder_of, read, why_unusable
from bookbuild.hooks import post_render, pre_render
from bookbuild.hooks.records import HOLE, only_reading, places
from bookbuild.outputs import cell_markdown, inline_markdown
from bookbuild.project import load_project
from bookbuild.run import PieceResult
from bookbuild.source import Cell, parse, skim
from bookbuild.stale import settings_in, settings_of

CODE = Path(bookbuild.__file__).resolve().parents[1]
HOOKS = CODE / "bookbuild" / "hooks"
ONE, TWO = "chapters/one.qmd", "chapters/two.qmd"
ALL = ("index.qmd", ONE, TWO)


def environment(root: Path, kind: str, files=ALL, whole=True, **more) -> dict[str, str]:
    """What a project script finds in its environment: src/command/render/project.ts."""
    variables = {
        "QUARTO_PROJECT_DIR": str(root),
        "QUARTO_PROJECT_OUTPUT_DIR": str(root / "_book"),
        f"QUARTO_PROJECT_{kind}_FILES": "\n".join(files),
        "QUARTO_PROJECT_SCRIPT_PROGRESS": str(int(len(files) > 1)),
        "QUARTO_PROJECT_SCRIPT_QUIET": "0",
    }
    return variables | ({"QUARTO_PROJECT_RENDER_ALL": "1"} if whole else {}) | more


def before(root: Path, *arguments, **options) -> tuple[int, str]:
    """Exit code of the pre-render hook and what it said."""
    err = io.StringIO()
    code = pre_render.main(environment(root, "INPUT", *arguments, **options), root, err)
    return code, err.getvalue()


def after(root: Path, pages, **options) -> tuple[int, str]:
    err = io.StringIO()
    files = [f"_book/{page}" for page in pages]
    code = post_render.main(environment(root, "OUTPUT", files, **options), root, err)
    return code, err.getvalue()


def states(root: Path) -> dict[str, str]:
    found = {v.source.path: v for v in plan(load_project(root)).verdicts}
    return {path: found[path].reason or found[path].state for path in (ONE, TWO)}


# How a hook is called.


def test_the_hooks_need_nothing_but_the_standard_library():
    script = f"""
import sys
sys.path.insert(0, {str(CODE)!r})
import bookbuild.hooks.pre_render, bookbuild.hooks.post_render
tops = {{name.partition(".")[0] for name in sys.modules}} - set(sys.stdlib_module_names)
print(sorted(tops - {{"__main__"}}))
"""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "['bookbuild', 'ledger']"


def lua(root: Path, name: str, **variables) -> subprocess.CompletedProcess:
    """A `.lua` project script as src/core/run/lua.ts runs it."""
    return subprocess.run(
        [
            *(pypandoc.get_pandoc_path(), "--from", "markdown", "--to", "plain"),
            *("--lua-filter", os.path.relpath(HOOKS / name, root)),
        ],
        cwd=root,
        env=variables,
        input="",
        capture_output=True,
        text=True,
    )


def test_a_lua_script_runs_the_hook_with_the_python_that_it_finds(executed, books):
    books.edit(executed / "code/measured/doubles.py", "2 * x", "x * 2")
    given = environment(executed, "INPUT", QUARTO_PYTHON=sys.executable)
    done = lua(executed, "pre_render.lua", **given)
    assert (done.returncode, done.stdout.strip()) == (0, "")
    assert done.stderr == f"{ONE}: measured.doubles changed; Quarto executes it\n"
    books.edit(executed / "ledger.toml", "value = 0.5", "value = 0.6")
    done = lua(executed, "pre_render.lua", **given)
    assert done.returncode == 1
    assert done.stderr.startswith(
        "ledger.toml:11: [half] expects 0.6 ± 1e-06, but chapters/two.qmd"
    )


def test_without_python_the_freeze_is_taken_as_it_is(executed, tmp_path):
    shutil.rmtree(executed / "code")
    for name in ("pre_render", "post_render"):
        done = lua(executed, f"{name}.lua", PATH="/nowhere")
        assert (done.returncode, done.stdout.strip()) == (0, "")
        assert done.stderr == (
            f"{name}.py: no Python 3.11 or newer found; the freeze is taken as it is\n"
        )
    assert lua(executed, "pre_render.lua", QUARTO_PROJECT_SCRIPT_QUIET="1").stderr == ""


def test_a_python_that_is_too_old_is_passed_over(executed, tmp_path):
    old = tmp_path / "bin" / "python3"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\nexit 111\n")
    good = tmp_path / "bin" / "python"
    good.symlink_to(sys.executable)
    old.chmod(old.stat().st_mode | stat.S_IXUSR)
    variables = environment(executed, "INPUT", PATH=str(tmp_path / "bin"))
    (executed / "media/data/half.txt").write_text("0.50\n")
    done = lua(executed, "pre_render.lua", **variables)
    assert done.stderr == f"{TWO}: media/data/half.txt changed; Quarto executes it\n"
    good.unlink()
    assert "no Python 3.11" in lua(executed, "pre_render.lua", **variables).stderr


# Before: what Quarto finds frozen.


def test_a_fresh_book_is_left_alone_byte_for_byte(executed, books):
    then = books.contents(executed)
    assert before(executed) == (0, "")
    assert books.contents(executed) == then


def test_quarto_finds_no_result_of_a_stale_chapter_and_the_others_as_they_were(executed, books):
    books.edit(executed / "code/measured/doubles.py", "2 * x", "x * 2")
    then = books.contents(executed / "_freeze")
    assert before(executed) == (0, f"{ONE}: measured.doubles changed; Quarto executes it\n")
    now = books.contents(executed / "_freeze")
    assert {*then} - {*now} == {"chapters/one/execute-results/html.json"}
    assert now.items() <= then.items()
    # Whoever executes it now can still be told what has changed since.
    assert "chapters/one/execute-results/inputs.json" in now


def test_what_is_not_rendered_is_not_touched(executed, books):
    books.edit(executed / "code/measured/doubles.py", "2 * x", "x * 2")
    then = books.contents(executed / "_freeze")
    assert before(executed, ["index.qmd", TWO], whole=False) == (0, "")
    assert books.contents(executed / "_freeze") == then
    assert before(executed, [ONE], whole=False)[1].startswith(f"{ONE}: measured.doubles changed")


def test_a_long_list_of_files_may_come_in_a_file(executed, books):
    books.edit(executed / "code/measured/doubles.py", "2 * x", "x * 2")
    (executed / "list.txt").write_text("\n".join(ALL))
    variables = environment(executed, "INPUT")
    del variables["QUARTO_PROJECT_INPUT_FILES"]
    variables["QUARTO_USE_FILE_FOR_PROJECT_INPUT_FILES"] = str(executed / "list.txt")
    err = io.StringIO()
    assert pre_render.main(variables, executed, err) == 0
    assert err.getvalue().startswith(f"{ONE}: ")


def test_files_that_are_no_chapters_are_none_of_its_business(executed):
    outside = executed.parent / "x" / "figure-html"
    outside.mkdir(parents=True)
    assert before(executed, ["notes.md", "gone.qmd", "../x.qmd", ""]) == (0, "")
    assert outside.is_dir()


def test_a_quiet_render_hears_of_errors_only(executed, books):
    books.edit(executed / "code/measured/doubles.py", "2 * x", "x * 2")
    assert before(executed, QUARTO_PROJECT_SCRIPT_QUIET="1") == (0, "")
    assert not (executed / folder_of(ONE) / "execute-results/html.json").exists()
    books.edit(executed / "ledger.toml", "value = 0.5", "value = 0.6")
    assert before(executed, QUARTO_PROJECT_SCRIPT_QUIET="1")[0] == 1


def test_prose_is_woven_as_the_build_would(executed, books, tmp_path):
    for old, new in (("Between them.", "Amid *them*."), ('title: "One"', "title: Eins")):
        books.edit(executed / ONE, old, new)
    other = Path(shutil.copytree(executed, tmp_path / "other"))
    assert before(executed) == (0, f"{ONE}: its prose changed; the frozen outputs stay\n")
    assert books.bring_up_to_date(other).woven == (ONE,)
    assert books.contents(executed / "_freeze") == books.contents(other / "_freeze")
    html = read(executed / folder_of(ONE)).html
    assert html["hash"] == parse(ONE, (executed / ONE).read_text()).md5  # what Quarto compares


def test_a_title_that_only_yaml_can_read_is_left_to_an_execution(executed, books):
    books.edit(executed / ONE, 'title: "One"', 'title: "One \\u2013 two"')
    assert before(executed)[1].startswith(f"{ONE}: its title is not one plain line")


def test_a_ledger_that_moved_away_stops_before_anything_is_touched(executed, books):
    books.edit(executed / "ledger.toml", "value = 0.5", "value = 0.500002")
    (executed / "code/measured/doubles.py").write_text("def twice(x):\n    return x + x\n")
    then = books.contents(executed)
    assert before(executed) == (
        1,
        "ledger.toml:11: [half] expects 0.500002 ± 1e-06, but chapters/two.qmd computed 0.5 from "
        "what has not changed since; mend the entry, or if 0.5 is right: "
        'book accept half --reason "…"\n',
    )
    assert books.contents(executed) == then


def test_a_ledger_that_moved_within_the_tolerance_executes(executed, books):
    books.edit(executed / "ledger.toml", "value = 0.5", "value = 0.5000005")
    assert before(executed) == (0, f"{TWO}: ledger entry half changed; Quarto executes it\n")


def test_a_ledger_that_moved_with_the_code_is_for_the_kernel_to_judge(executed, books):
    books.edit(executed / "ledger.toml", "value = 0.5", "value = 0.6")
    (executed / "media/data/half.txt").write_text("0.6\n")
    assert before(executed)[0] == 0


def test_a_ledger_that_cannot_be_read_stops_with_its_line(executed, books):
    books.edit(executed / "ledger.toml", "value = 0.5", "value = 0,5")
    code, said = before(executed)
    assert code == 1 and said.startswith("ledger.toml:13: is not TOML")


def test_a_chapter_that_is_no_text_stops_with_its_name(executed):
    (executed / ONE).write_bytes(b"\xff")
    assert before(executed) == (1, f"{ONE}: is not UTF-8: invalid start byte\n")


def test_a_tampered_freeze_is_not_shown(executed, books):
    path = executed / folder_of(ONE) / "execute-results/html.json"
    path.write_text(path.read_text().replace("42", "43"))
    said = f"{ONE}: its html.json is not the one its inputs were recorded for; Quarto executes it\n"
    assert before(executed) == (0, said)
    assert not path.exists()


def test_figures_of_an_old_run_do_not_come_back_with_the_new_one(executed):
    figure = executed / folder_of(ONE) / "figure-html/fig-old-output-1.svg"
    figure.parent.mkdir()
    figure.write_text("<svg/>")
    assert before(executed)[1].startswith(f"{ONE}: its figure fig-old-output-1.svg belongs to")
    assert not figure.parent.exists()


def test_the_python_of_the_book_s_environment_counts_not_the_hook_s(executed):
    assert before(executed) == (0, "")  # nobody knows which Python would execute
    (executed / ".venv").mkdir()
    (executed / ".venv/pyvenv.cfg").write_text("home = /x\nversion = 3.99.1\n")
    now = f"Python was {sys.version_info[0]}.{sys.version_info[1]}, is 3.99"
    assert before(executed, [TWO]) == (0, f"{TWO}: {now}; Quarto executes it\n")
    told = {"QUARTO_PYTHON": str(executed / "other/bin/python")}
    assert before(executed, [ONE], **told) == (0, "")


@pytest.mark.parametrize(
    "lines",
    [
        "",
        "format:\n  html:\n    fig-width: 3\n    fig-height: 2.5",
        "format: {html: {fig-format: png, fig-dpi: 100}}",
        "format:\n  html:\n    fig-format: 'svg' # fig-dpi: 3\n#    fig-width: 9",
    ],
)
def test_settings_are_the_same_with_and_without_a_yaml_reader(tmp_path, books, lines):
    root = books.write(tmp_path / "book")
    config = root / "_quarto.yml"
    config.write_text(f"{config.read_text()}{lines}\n")
    assert settings_in(root, config.read_text()) == settings_of(load_project(root))


def test_a_chapter_is_the_same_with_and_without_a_yaml_reader(books):
    cells = books.cell("x", "fig-a", 'fig-cap: "One: two"', "eval: false", "fig-subcap: [a, b]")
    text = books.chapter(cells, 'Text `{python} say("half")`.', books.cell("y", "b"))
    one, other = parse("one.qmd", text), skim("one.qmd", text)
    assert [cell.key for cell in one.cells] == [cell.key for cell in other.cells]
    assert [(cell.label, cell.options.get("eval")) for cell in other.cells] == [
        ("fig-a", False),
        ("b", None),
    ]
    assert (one.title, one.md5) == (other.title, other.md5)


# During: a kernel that Quarto starts, and what it leaves behind.

SETUP = "import json, sys\nimport zmq\nprint(json.dumps(dict()))\n%reset\n"  # lang/python/setup.py
CLEANUP = "%reset\n"  # lang/python/cleanup.py


class Quarto:
    """The part of Quarto's notebook.py and freeze.ts: run a document, freeze what it gave."""

    def __init__(self, root: Path):
        self.root = root
        self.client: NotebookClient | None = None

    def render(self, path: str) -> None:
        """Execute a chapter, in the kernel that an earlier render left alive if there is one."""
        place = self.root / path
        source = parse(path, place.read_text(encoding="utf-8"))
        if self.client is None:
            self._start(place)
        pieces, figures, count = [], {}, 0
        self._cell(SETUP, history=False)
        for piece in source.pieces:
            if not isinstance(piece, Cell):
                pieces.append(PieceResult(inlines=self._inlines(piece)))
                continue
            count += 1
            outputs = [] if piece.options.get("eval") is False else self._cell(piece.code)
            made = cell_markdown(piece, outputs, count, f"{place.stem}_files")
            figures |= made.figures
            pieces.append(PieceResult(markdown=made.text))
        self._cell(CLEANUP, history=False)
        result = {
            "engine": "jupyter", "markdown": _markdown(source, tuple(pieces))[0],
            "supporting": [f"{place.stem}_files"], "filters": [], "includes": {},
        }  # fmt: skip
        folder = self.root / folder_of(path)
        for name, content in figures.items():
            (folder / "figure-html").mkdir(parents=True, exist_ok=True)
            (folder / "figure-html" / name).write_text(content, encoding="utf-8")
        (folder / "execute-results").mkdir(parents=True, exist_ok=True)
        html = _json({"hash": source.md5, "result": result})
        (folder / "execute-results/html.json").write_bytes(html)

    def _start(self, place: Path) -> None:
        self.client = NotebookClient(nbformat.v4.new_notebook(), record_timing=False)
        self.client.create_kernel_manager()
        self.client.start_new_kernel(
            cwd=str(place.parent),
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(self.root / "code"), str(CODE)]),
                "IPYTHONDIR": str(self.root / ".ipython"),
                "QUARTO_PROJECT_ROOT": str(self.root),
                "QUARTO_DOCUMENT_PATH": str(place.parent),
                "QUARTO_DOCUMENT_FILE": place.name,
            },
        )
        self.client.start_new_kernel_client()

    def _cell(self, code: str, history: bool = True) -> list:
        cell = nbformat.v4.new_code_cell(code)
        self.client.nb.cells = [cell]
        return self.client.execute_cell(cell, 0, store_history=history).outputs

    def _inlines(self, piece) -> tuple[str, ...]:
        if not piece.inlines:
            return ()
        wanted = {str(number): one.expression for number, one in enumerate(piece.inlines)}
        message = self.client.kc.execute("", user_expressions=wanted)
        reply = self.client.wait_for_reply(message)
        found = reply["content"]["user_expressions"]
        return tuple(inline_markdown(found[number]["data"]) for number in wanted)

    def stop(self) -> None:
        if self.client is not None:
            self.client._cleanup_kernel()
            self.client = None


@pytest.fixture
def quarto(tmp_path, books):
    """A small book that nobody has executed, and a Quarto for it."""
    quarto = Quarto(books.write(tmp_path / "book"))
    yield quarto
    quarto.stop()


@pytest.fixture(scope="module")
def rendered_once(tmp_path_factory, books):
    """The small book as two kernels of Quarto's left it, before its post-render hook."""
    root = books.write(tmp_path_factory.mktemp("rendered") / "book")
    for path in (ONE, TWO):
        quarto = Quarto(root)
        try:
            quarto.render(path)
        finally:
            quarto.stop()
    shutil.rmtree(root / ".ipython", ignore_errors=True)
    return root


@pytest.fixture
def rendered(rendered_once, tmp_path) -> Path:
    """A copy; the pages are what Quarto's pandoc would make of the Markdown, near enough."""
    root = Path(shutil.copytree(rendered_once, tmp_path / "book"))
    for path in (ONE, TWO):
        page(root, path, read(root / folder_of(path)).markdown)
    return root


def page(root: Path, path: str, markdown: str, *options: str) -> None:
    """Write a chapter's page."""
    place = root / "_book" / Path(path).with_suffix(".html")
    place.parent.mkdir(parents=True, exist_ok=True)
    html = pypandoc.convert_text(markdown, "html", format="markdown", extra_args=[*options])
    place.write_text(html, encoding="utf-8")


PAGES = ("chapters/one.html", "chapters/two.html")


def test_what_quarto_executed_is_fresh_after_its_hook(rendered, books, executed_once):
    assert states(rendered) == dict.fromkeys((ONE, TWO), "its inputs.json is missing")
    assert after(rendered, PAGES) == (0, "")
    assert states(rendered) == dict.fromkeys((ONE, TWO), "fresh")
    assert books.bring_up_to_date(rendered).ran == ()
    assert not list((rendered / ".book/quarto").rglob("*.json"))
    # Byte for byte what the book's own build freezes; only a kernel of Quarto's loads more.
    for path in (ONE, TWO):
        ours, theirs = read(executed_once / folder_of(path)), read(rendered / folder_of(path))
        assert {*ours.files} == {*theirs.files}
        assert ours.html == theirs.html and ours.numbers == theirs.numbers
        differs = {key for key in ours.inputs if ours.inputs[key] != theirs.inputs[key]}
        assert differs <= {"libraries", "seal"}
        assert ours.inputs["libraries"].items() <= theirs.inputs["libraries"].items()


def test_all_that_quarto_s_kernel_used_is_recorded(rendered, books):
    after(rendered, PAGES)
    inputs = read(rendered / folder_of(TWO)).inputs
    names = [f"code/measured/{name}.py" for name in ("__init__", "halves")]
    assert [name for name in inputs["modules"] if "ledger" not in name] == names
    assert list(inputs["data"]) == ["media/data/half.txt"]
    assert sorted(inputs["ledger"]) == ["half", "twice"]
    assert inputs["python"] == f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert {"ipykernel", "ipython"} <= set(inputs["libraries"])
    (rendered / "media/data/half.txt").write_text("0.50\n")
    books.edit(rendered / "code/measured/doubles.py", "2 * x", "x * 2")
    assert states(rendered) == {
        ONE: "measured.doubles changed", TWO: "media/data/half.txt changed",
    }  # fmt: skip


def test_prose_after_quarto_s_execution_executes_nothing(rendered, books):
    after(rendered, PAGES)
    books.edit(rendered / ONE, "Between them.", "Amid them.")
    assert states(rendered)[ONE] == "its prose changed"
    assert before(rendered) == (0, f"{ONE}: its prose changed; the frozen outputs stay\n")
    assert states(rendered)[ONE] == "fresh"


def test_what_a_failed_render_left_is_joined_by_the_next_one(rendered):
    assert before(rendered) == (0, "")  # the hook after the failed one never ran
    assert states(rendered) == dict.fromkeys((ONE, TWO), "fresh")


def change_record(root: Path, **fields) -> None:
    path = root / ".book/quarto/chapters/one.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"format": 0}, "the kernel's record is in another format"),
        ({"document": TWO}, "the kernel's record is of another document"),
        ({"text": "0"}, "its text changed while it ran"),
        ({"early": False}, "its first cell must begin with imports, and import ledger before"),
        ({"foreign": ["measured"]}, "it imported measured from another folder than this book's"),
        ({"ran": []}, "the kernel's record is not of one run of all its cells"),
        ({"ledger": {"twice": "0"}}, "ledger.toml was edited while it ran"),
        ({"said": []}, "it says numbers that the kernel's record lacks"),
    ],
)
def test_a_record_of_another_run_is_not_taken(rendered, fields, reason):
    change_record(rendered, **fields)
    code, said = after(rendered, PAGES)
    assert (code, said.startswith(f"{ONE}: {reason}")) == (1, True), said
    assert states(rendered) == {ONE: "its inputs.json is missing", TWO: "fresh"}


def test_a_figure_of_an_earlier_run_goes_and_one_that_is_missing_is_told(rendered):
    figures = rendered / folder_of(ONE) / "figure-html"
    figures.mkdir()
    (figures / "old-output-1.svg").write_text("<svg/>")
    html = rendered / folder_of(TWO) / "execute-results/html.json"
    html.write_text(html.read_text().replace("The end.", "![](two_files/figure-html/new.svg)"))
    said = f"{TWO}: its figure new.svg is missing; execute it again: book build, or quarto render"
    assert after(rendered, PAGES) == (1, f"{said} {TWO}\n")
    assert states(rendered)[ONE] == "fresh" and not list(figures.iterdir())


def test_a_kernel_that_lives_on_is_recorded_anew_for_each_render(quarto, books):
    root = quarto.root
    quarto.render(TWO)
    page(root, TWO, "")
    books.edit(root / "ledger.toml", '"Half of one"', '"One half"')
    (root / "media/data/half.txt").write_text("0.5000000001\n")
    books.edit(root / TWO, "The end.", "The very end.")
    quarto.render(TWO)
    page(root, TWO, read(root / folder_of(TWO)).markdown)
    assert after(root, PAGES[1:]) == (0, "")
    assert states(root)[TWO] == "fresh"
    frozen = read(root / folder_of(TWO))
    assert frozen.numbers["numbers"][0]["value"] == 0.5000000001
    assert "One half. Expected" in frozen.markdown


def test_a_number_that_drifts_stops_quarto_and_leaves_nothing_to_trust(quarto, books):
    (quarto.root / "media/data/half.txt").write_text("0.6\n")
    with pytest.raises(CellExecutionError, match=r"half drifted by 1e\+05 tolerances"):
        quarto.render(TWO)
    page(quarto.root, TWO, "")
    assert after(quarto.root, PAGES[1:])[1].startswith(f"{TWO}: Quarto froze nothing; execute it")


def test_data_read_before_the_ledger_is_imported_is_not_taken_for_seen(quarto, books):
    books.edit(
        quarto.root / TWO, "from ledger", 'Path("../media/data/half.txt").read_text()\nfrom ledger'
    )
    quarto.render(TWO)
    page(quarto.root, TWO, read(quarto.root / folder_of(TWO)).markdown)
    assert "its first cell must begin with imports" in after(quarto.root, PAGES[1:])[1]


def test_a_reader_s_notebook_records_nothing(tmp_path, books):
    root = books.write(tmp_path / "book")
    subprocess.run(
        [sys.executable, "-c", "import IPython; from ledger import check; check('twice', 42)"],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(CODE), "QUARTO_PROJECT_ROOT": str(root)},
        check=True,
    )
    assert not (root / ".book").exists()


values = st.text("ab: \n", max_size=4)


@settings(deadline=None)
@given(st.lists(st.tuples(values, values), min_size=1, max_size=5), values)
def test_outputs_are_told_apart_rightly_or_not_at_all(pairs, end):
    for marked in (False, True):
        parts, text, spans = [], "", []
        for number, (literal, value) in enumerate(pairs):
            literal = f"<{number}>{literal}" * marked or literal
            parts += [literal, HOLE]
            text += literal
            spans.append((len(text), len(text) + len(value)))
            text += value
        last = f"<>{end}" * marked or end
        found = only_reading([*parts, last], text + last, [lambda text: True] * len(pairs))
        # Where each text of the source stands but once, there is but one way.
        assert found == spans if marked else found in (None, spans)


def test_cells_are_told_apart_by_their_labels():
    text = "::: {#a .cell}\n:::\n\n\n::: {#b .cell}\nb\n:::\n\n\nEnd\n\n"
    cells = "```{python}\n#| label: a\n```\n\n```{python}\n#| label: b\nb\n```\n\nEnd"
    found, _ = places(skim("x.qmd", cells), text)
    assert [text[slice(*cell["span"])] for cell in found] == [
        "::: {#a .cell}\n:::\n\n",
        "::: {#b .cell}\nb\n:::\n\n",
    ]
    found, _ = places(skim("x.qmd", cells.replace("label: b", "label: c")), text)
    assert [cell["span"] for cell in found] == [None, None]


# After: what the pages say.


def test_a_reference_that_leads_nowhere_is_an_error(executed, books):
    page(executed, ONE, "See **?\\@fig-none**, [?sec-gone]{.quarto-unresolved-ref}. `?@fig-code`")
    books.edit(executed / ONE, "Between them.", "Between @fig-none-2, @fig-none.")
    code, said = after(executed, PAGES)
    assert code == 1
    assert f"{ONE}:13: @fig-none leads nowhere; no label is fig-none\n" in said
    assert f"{ONE}: @sec-gone leads nowhere; no label is sec-gone\n" in said
    assert "fig-code" not in said


def test_a_page_rendered_alone_may_refer_to_another_one(executed, books):
    page(executed, ONE, "See **?\\@sec-two** and **?\\@sec-none**.")
    books.edit(executed / TWO, "The end.", "## Two {#sec-two}")
    assert "sec-two" in after(executed, PAGES[:1])[1]
    said = after(executed, PAGES[:1], whole=False)[1]
    assert "sec-two" not in said and "@sec-none leads nowhere" in said


def test_a_citation_that_is_in_no_bibliography_is_an_error(executed, books):
    (executed / "refs.bib").write_text("@book{here, title={T}, author={A}, year={2001}}\n")
    books.edit(executed / ONE, "Between them.", "Between @here, [@gone; @here] and [-@lost].")
    cited = ("--citeproc", f"--bibliography={executed / 'refs.bib'}", "-M", "link-citations")
    page(executed, ONE, (executed / ONE).read_text(), *cited)
    said = after(executed, PAGES)[1]
    assert f"{ONE}:13: @gone is cited, but in no bibliography\n" in said
    assert f"{ONE}:13: @lost is cited, but in no bibliography\n" in said
    assert "@here" not in said


def test_a_number_that_the_page_lacks_or_shows_otherwise_is_an_error(executed):
    markdown = read(executed / folder_of(TWO)).markdown
    page(executed, TWO, markdown)
    assert after(executed, PAGES[1:]) == (0, "")
    page(executed, TWO, markdown.replace(".claim data-claim", ".c data-c", 1))
    code, said = after(executed, PAGES[1:])
    assert code == 1 and "_book/chapters/two.html: half 0.5000 is said in the source, but" in said
    page(executed, TWO, markdown.replace("[0.5000]", "[0.5001]"))
    code, said = after(executed, PAGES[1:])
    assert code == 1
    assert re.search(r"_book/chapters/two\.html:\d+: half reads '0\.5001', the ledger says", said)


def test_only_the_pages_just_rendered_are_held_to_the_ledger(executed):
    for path in (ONE, TWO):
        page(executed, path, read(executed / folder_of(path)).markdown)
    page(executed, ONE, "Nothing is said here.")  # of a text that is being written
    assert after(executed, PAGES[1:], whole=False) == (0, "")
    assert after(executed, PAGES)[0] == 1


def test_a_table_of_numbers_from_before_quarto_s_run_is_an_error(executed):
    rows = {"twice": "42", "half": "0.5000"}
    html = "".join(
        f'<tr id="number-{id}"><td>{shown}</td><td>What</td><td>{shown}</td></tr>'
        for id, shown in rows.items()
    )
    place = executed / "_book/numbers.html"
    place.parent.mkdir()
    place.write_text(f"<table>{html}</table>")
    assert after(executed, ["numbers.html"]) == (0, "")
    place.write_text(f"<table>{html.replace('0.5', '0.4')}</table>")
    said = "_book/numbers.html:1: half is listed as '0.4000', the freeze says '0.5000'\n"
    assert said in after(executed, ["numbers.html"])[1]


def test_both_hooks_run_as_programs_of_their_own(executed):
    for name, kind, files in (("pre", "INPUT", ALL), ("post", "OUTPUT", ["_book/none.html"])):
        done = subprocess.run(
            [sys.executable, "-I", "-S", HOOKS / f"{name}_render.py"],
            cwd=executed,
            env=environment(executed, kind, files),
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert why_unusable(read(executed / folder_of(ONE))) is None
