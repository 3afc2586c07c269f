"""Chapters run in kernels of their own; whatever goes wrong is told with its line."""

import os
import shutil
import time
from pathlib import Path

import pytest

from bookbuild.execute import execute, kernel_environment
from bookbuild.freeze import freeze
from bookbuild.project import load_project
from bookbuild.run import Failure, Run
from bookbuild.source import parse
from bookbuild.stale import settings_of
from ledger.entries import load_ledger

REFERENCE = Path(__file__).resolve().parents[1] / "quarto-reference"
SETUP = "```{python}\n#| label: setup\nfrom ledger import check, say\nimport os, time\n```\n"
# Lines 1 to 4 are the front matter and a blank, 5 to 9 the setup cell, 10 is blank.
BROKEN = {
    "raises": "```{python}\n#| label: bad\n"
    '\nx = 1\nraise ValueError("no \\x1b[31mway\\x1b[0m")\n```\n',
    "in-a-function-of-an-earlier-cell": (
        "```{python}\n#| label: defined\ndef f():\n    try:\n        1 / 0\n"
        '    except ZeroDivisionError as error:\n        raise KeyError("k") from error\n```\n\n'
        "```{python}\n#| label: bad\nx = 1\nf()\n```\n"
    ),
    "is-no-python": "```{python}\n#| label: bad\nx = 1\ny = = 2\n```\n",
    "never-ends": "```{python}\n#| label: bad\ntime.sleep(600)\n```\n",
    "dies": "```{python}\n#| label: bad\nos._exit(3)\n```\n",
    "leaves": "```{python}\n#| label: bad\nimport sys\nsys.exit(3)\n```\n",
    "inline-raises": "Fine: `{python} 1`.\n\nAnd `{python} nothing`.\n",
    "inline-never-ends": "Fine.\n\nAnd `{python} time.sleep(600)`.\n",
    "inline-dies": "`{python} os._exit(3)`\n",
    "inline-before-its-cell": "",
    "shows-html": (
        "```{python}\n#| label: bad\nfrom IPython.display import HTML\nHTML('<b>x</b>')\n```\n"
    ),
    "prints-its-folder": "```{python}\n#| label: bad\nprint(os.getcwd())\n```\n",
    "prints-an-address": "```{python}\n#| label: bad\nobject()\n```\n",
    "warns": "```{python}\n#| label: bad\nimport warnings\nwarnings.warn('careful')\n```\n",
    "says-its-folder": "Text\n`{python} os.getcwd()`\n",
    "drifts": (
        '```{python}\n#| label: first\ncheck("twice", 43)\n```\n\n'
        '```{python}\n#| label: second\ncheck("half", 0.75)\n```\n\n'
        "Then `{python} say('half')`.\n"
    ),
    "drifts-and-raises": (
        '```{python}\n#| label: first\ncheck("twice", 43)\n```\n\n'
        "```{python}\n#| label: bad\nassert False, 'because of it'\n```\n"
    ),
    "checks-twice": ('```{python}\n#| label: bad\ncheck("twice", 42)\ncheck("twice", 42)\n```\n'),
    "checks-the-unknown": '```{python}\n#| label: bad\ncheck("twise", 42)\n```\n',
}
EXPECTED = {
    "raises": ["15: cell bad: ValueError: no way"],
    "in-a-function-of-an-earlier-cell": ["23: cell bad: KeyError: 'k'"],
    "is-no-python": ["14: cell bad: SyntaxError: invalid syntax"],
    "never-ends": ["11: cell bad ran for more than 3 s and was stopped"],
    "dies": ["11: cell bad: the kernel died (out of memory, or a crash in compiled code)"],
    "leaves": ["11: cell bad: SystemExit: 3"],
    "inline-raises": [
        "13: an inline expression: `nothing` gave NameError: name 'nothing' is not defined"
    ],
    "inline-never-ends": ["11: an inline expression ran for more than 3 s and was stopped"],
    "inline-dies": ["11: an inline expression: the kernel died (out of memory"],
    "inline-before-its-cell": [
        "5: an inline expression: `say('twice')` gave NameError: name 'say' is not defined"
    ],
    "shows-html": ["11: cell bad shows HTML, for which Quarto would add a script"],
    "prints-its-folder": ["11: cell bad prints {root}, a folder of this machine; print what is"],
    "prints-an-address": ["11: cell bad prints 'at 0x"],
    "warns": ["11: cell bad prints 'ipykernel_"],
    "says-its-folder": ["12: an inline expression: `os.getcwd()` prints {root}, a folder of"],
    "drifts": [
        "13: twice drifted by 1; it must be exact",
        "18: half drifted by 2.5e+05 tolerances",
    ],
    "drifts-and-raises": [
        "13: twice drifted by 1; it must be exact",
        "18: cell bad: AssertionError: because of it",
    ],
    "checks-twice": ["14: cell bad: UnknownNumber: "],
    "checks-the-unknown": ["13: cell bad: UnknownNumber: "],
}
FINE = {
    "chapters/allowed.qmd": "```{python}\n#| label: only\n#| error: true\n1 / 0\n```\n\nAfter.\n",
    "chapters/much.qmd": (
        "```{python}\n#| label: only\nfor number in range(3000):\n"
        "    print(number, 'x' * 20, flush=True)\n```\n"
    ),
    "chapters/deep er/kapitel ä.qmd": (
        "```{python}\n#| label: only\nfrom pathlib import Path\nimport os\n"
        'text = Path("../../media/data/half.txt").read_text()\n'
        'os.chdir("../..")\nopen("media/data/other.txt").close()\n'
        'print(text, os.environ["QUARTO_DOCUMENT_FILE"], os.environ["PYTHONHASHSEED"])\n```\n'
    ),
    "index.qmd": (
        "```{python}\n#| label: only\n#| output: asis\nimport measured.doubles\n"
        "print('**at the root**')\n```\n\n"
        "`{python} next(iter([5]))` and `{python} 'a_b'`"
    ),
    "chapters/style.qmd": (
        "```{python}\n#| label: only\nimport matplotlib\n"
        'print(matplotlib.rcParams["lines.linewidth"])\n```\n'
    ),
    "chapters/edits.qmd": (
        "```{python}\n#| label: only\nfrom pathlib import Path\nimport measured.halves\n"
        'Path("../code/measured/halves.py").write_text("HALF = 2")\n```\n'
    ),
}


def text_of(body: str) -> str:
    first = "Too early: `{python} say('twice')`.\n\n" if not body else ""
    return f'---\ntitle: "T"\n---\n\n{first}{SETUP}\n{body}'


@pytest.fixture(scope="module")
def results(books, tmp_path_factory):
    """Every broken and every fine chapter, executed together: name -> (project, result)."""
    root = tmp_path_factory.mktemp("execution") / "a book"
    chapters = {f"chapters/{name}.qmd": text_of(body) for name, body in BROKEN.items()}
    chapters |= {path: f'---\ntitle: "T"\n---\n\n{body}' for path, body in FINE.items()}
    chapters = {"index.qmd": chapters.pop("index.qmd"), **chapters}
    files = {**books.files, "media/data/other.txt": "x\n"}
    files["mine/matplotlibrc"] = "lines.linewidth: 9\n"
    project = load_project(books.write(root, chapters, books.ledger, files))
    sources = [parse(chapter.path, project.source(chapter)) for chapter in project.chapters]
    found, done = [], []
    for hang, timeout in ((False, 60), (True, 3)):
        chosen = [source for source in sources if ("never-ends" in source.path) == hang]
        environment = {**kernel_environment(root), "MPLCONFIGDIR": str(root / "mine")}
        made = execute(
            project, chosen, jobs=3, timeout=timeout, environment=environment, done=done.append
        )
        assert [result.source for result in made] == chosen
        found += made
    assert len(done) == len(found) == len(sources)
    assert books.kernels_of(root) == []
    return {result.source.path: (project, result) for result in found}


@pytest.mark.parametrize("name", BROKEN)
def test_what_goes_wrong_is_told_with_its_line(results, name):
    project, result = results[f"chapters/{name}.qmd"]
    assert isinstance(result, Failure)
    messages = [str(problem) for problem in result.problems]
    assert len(messages) == len(EXPECTED[name]), messages
    for message, expected in zip(messages, EXPECTED[name], strict=True):
        start = f"chapters/{name}.qmd:{expected.format(root=project.root)}"
        assert message.startswith(start), message


def test_all_drifts_of_a_chapter_are_kept_with_what_came(results):
    _, result = results["chapters/drifts.qmd"]
    assert [(drift["id"], drift["got"]) for drift in result.drifts] == [
        ("twice", 43),
        ("half", 0.75),
    ]


def test_refused_ids_are_named(results):
    for name, text in (("checks-twice", "twice is checked twice"), ("checks-the-unknown", "twise")):
        assert text in str(results[f"chapters/{name}.qmd"][1].problems[0])


def frozen(results, path):
    project, run = results[path]
    assert isinstance(run, Run), run.problems
    return freeze(run, load_ledger(project.root / "ledger.toml"), settings_of(project))


def test_an_allowed_error_is_shown_and_the_chapter_goes_on(results):
    markdown = frozen(results, "chapters/allowed.qmd").markdown
    assert "```\nZeroDivisionError: division by zero\n```" in markdown
    assert markdown.endswith("After.\n\n")


def test_of_three_thousand_messages_none_is_lost(results):
    markdown = frozen(results, "chapters/much.qmd").markdown
    assert all(f"\n{number} xxx" in markdown for number in range(3000))


def test_a_nested_chapter_runs_in_its_folder_and_all_it_read_is_recorded(results):
    made = frozen(results, "chapters/deep er/kapitel ä.qmd")
    assert "```\n0.5\n kapitel ä.qmd 0\n```" in made.markdown
    assert list(made.inputs["data"]) == ["media/data/half.txt", "media/data/other.txt"]


def test_a_page_at_the_root_can_have_code(results):
    made = frozen(results, "index.qmd")
    assert "```\n**at the root**\n:::" in made.markdown
    assert made.markdown.endswith("\n5 and a\\_b\n\n")
    assert list(made.inputs["modules"]) == [
        "code/measured/__init__.py", "code/measured/doubles.py",
    ]  # fmt: skip


def test_a_person_s_own_style_of_figures_stays_out(results):
    assert "```\n1.5\n```" in frozen(results, "chapters/style.qmd").markdown


def test_a_module_edited_while_the_chapter_ran_is_not_recorded_as_the_one_it_used(results):
    made = frozen(results, "chapters/edits.qmd")
    assert made.inputs["modules"]["code/measured/halves.py"] == "changed during the run"


def test_the_reference_project_is_frozen_as_quarto_froze_it(tmp_path):
    root = Path(shutil.copytree(REFERENCE / "project", tmp_path / "project"))
    project = load_project(root)
    sources = [parse(c.path, project.source(c)) for c in project.chapters]
    sources = [source for source in sources if source.executable]
    runs = execute(project, sources, jobs=2, timeout=60, environment=kernel_environment(root))
    assert [type(run) for run in runs] == [Run, Run], [getattr(r, "problems", "") for r in runs]
    for run in runs:
        folder = REFERENCE / "expected/_freeze" / run.source.path.removesuffix(".qmd")
        made = freeze(run, {}, {}).files
        html = (folder / "execute-results/html.json").read_bytes()
        assert made["execute-results/html.json"] == html
        figures = {path.name for path in folder.glob("figure-html/*")}
        assert {Path(name).name for name in made if "figure-html" in name} == figures


def test_a_kernel_that_cannot_start_says_why(books, tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho no ipykernel >&2\nexit 1\n")
    python.chmod(0o755)
    project = load_project(books.write(tmp_path))
    source = parse("chapters/one.qmd", books.chapters["chapters/one.qmd"])
    started = time.monotonic()
    (result,) = execute(
        project,
        [source],
        jobs=1,
        timeout=5,
        environment=kernel_environment(tmp_path),
        python=str(python),
    )
    assert [str(problem) for problem in result.problems] == [
        "chapters/one.qmd: its kernel: did not start: no ipykernel"
    ]
    assert time.monotonic() - started < 30


def test_a_long_path_of_temporary_files_is_no_obstacle(books, tmp_path, monkeypatch):
    long = tmp_path / ("long" * 25)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    project = load_project(books.write(tmp_path / "book"))
    source = parse("chapters/one.qmd", books.chapters["chapters/one.qmd"])
    (result,) = execute(
        project, [source], jobs=1, timeout=30, environment=kernel_environment(project.root)
    )
    assert isinstance(result, Run), result.problems
    assert list(long.iterdir()) == []


def test_the_project_s_variables_win_and_other_code_stays_out(tmp_path):
    (tmp_path / "_environment").write_text('# a comment=1\nPYTHONHASHSEED=0\nNAME = "a b"\n\n')
    outer = {"PYTHONHASHSEED": "7", "PYTHONPATH": "/x", "PYTHONSTARTUP": "/y", "HOME": "/h"}
    assert kernel_environment(tmp_path, outer) == {
        "PYTHONHASHSEED": "0", "NAME": "a b", "HOME": "/h",
    }  # fmt: skip
    assert os.environ.get("NAME") != "a b"
