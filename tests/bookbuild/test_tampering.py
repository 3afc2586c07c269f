"""Whatever is done to a freeze is found by hash, named, and mended by the next build.

Each kind is done to a copy of one executed book, on disk, as an editor, a merge, a broken checkout
or a person in a hurry would do it. Mending executes for the runs that were kept from the book's one
real execution: which chapters are executed is the build's own decision.
"""

import json
import shutil
from pathlib import Path

import pytest

from bookbuild.build import plan
from bookbuild.execute import execute, kernel_environment
from bookbuild.freeze import _seal, _sha256, folder_of
from bookbuild.project import load_project
from bookbuild.source import parse

PATH = "chapters/one.qmd"
OTHER = "chapters/two.qmd"
FRESH = {PATH: "fresh", OTHER: "fresh"}


def a_chapter(books, name: str) -> str:
    svg = f'SVG("<svg xmlns=\\"http://www.w3.org/2000/svg\\"><title>{name}</title></svg>")'
    return books.chapter(
        books.cell("from IPython.display import SVG\n\nfrom ledger import check, say", "setup"),
        f"The chapter {name}.\n",
        books.cell(f'check("{name}", 0.5)', "value"),
        books.cell(svg, "fig-drawn", f"fig-cap: {name}", f"fig-alt: {name}"),
        f'It is `{{python}} say("{name}")`.\n',
    )


@pytest.fixture(scope="module")
def ran(tmp_path_factory, books):
    """A book of two chapters with a figure each, built; and the runs that it was built from."""
    entry = books.ledger[books.ledger.index("[half]") :].partition("\n")[2]
    root = books.write(
        tmp_path_factory.mktemp("tampering") / "book",
        {PATH: a_chapter(books, "one"), OTHER: a_chapter(books, "two")},
        ledger=f"[one]\n{entry}\n[two]\n{entry}",
    )
    project = load_project(root)
    sources = [parse(path, (root / path).read_text()) for path in (PATH, OTHER)]
    made = execute(project, sources, jobs=2, timeout=60, environment=kernel_environment(root))
    runs = {run.source.path: run for run in made}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bookbuild.execute.execute", replayed(runs))
        books.bring_up_to_date(root)
    return root, runs


def replayed(runs):
    """An executor that hands back the runs of an earlier execution."""

    def execute(project, sources, *, done, **options):
        found = [runs[source.path] for source in sources]
        for run in found:
            done(run)
        return found

    return execute


@pytest.fixture
def book(ran, tmp_path, monkeypatch):
    """A copy that may be spoilt; building it executes nothing for real."""
    root, runs = ran
    monkeypatch.setattr("bookbuild.execute.execute", replayed(runs))
    return Path(shutil.copytree(root, tmp_path / "book"))


def states(root) -> dict[str, str]:
    return {v.source.path: v.reason or v.state for v in plan(load_project(root)).verdicts}


class Freeze:
    """The files of the first chapter's freeze, and what can be done to them."""

    def __init__(self, root: Path, path: str = PATH):
        self.root, self.folder = root, root / folder_of(path)
        results = self.folder / "execute-results"
        self.html, self.inputs, self.numbers = (
            results / f"{name}.json" for name in ("html", "inputs", "numbers")
        )
        self.figure = self.folder / "figure-html/fig-drawn-output-1.svg"

    @property
    def other(self) -> "Freeze":
        return Freeze(self.root, OTHER)

    def edit(self, name: str, old: str, new: str) -> None:
        path = getattr(self, name)
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new, 1), encoding="utf-8")

    def cut(self, name: str, share: float) -> None:
        content = getattr(self, name).read_bytes()
        getattr(self, name).write_bytes(content[: int(share * len(content))])

    def take(self, name: str) -> None:
        """Overwrite a file with the other chapter's."""
        shutil.copy(getattr(self.other, name), getattr(self, name))

    def link(self, name: str) -> None:
        """Put a link in a file's place; what it leads to is the same."""
        path = getattr(self, name)
        path.rename(self.root / path.name)
        path.symlink_to(self.root / path.name)

    def conflict(self, name: str) -> None:
        path = getattr(self, name)
        one, *rest = path.read_text(encoding="utf-8").splitlines(keepends=True)
        path.write_text(f"<<<<<<< ours\n{one}=======\n{one}>>>>>>> theirs\n{''.join(rest)}")

    def reseal(self, **fields) -> None:
        """Change inputs.json and compute its seal anew, as only a forger would."""
        inputs = json.loads(self.inputs.read_text()) | fields
        inputs["seal"] = _seal(inputs)
        text = json.dumps(inputs, indent=2, ensure_ascii=False)
        self.inputs.write_text(f"{text}\n", encoding="utf-8")

    def earlier(self, name: str) -> None:
        """Bring a file back from a commit in which the chapter gave something else."""
        old = {"html": ("[0.5000]", "[0.4000]"), "figure": ("one", "eins")}
        old |= {"numbers": ('"shown": "0.5000"', '"shown": "0.4000"')}
        self.edit(name, *old[name])


NOT_ITS = "its html.json is not the one its inputs were recorded for"
BY_HAND = "its {}.json was changed by hand"
FIGURE = "its figure fig-drawn-output-1.svg is {}"
KINDS = {
    "a value in the Markdown": (lambda f: f.edit("html", "[0.5000]", "[0.6000]"), NOT_ITS),
    "a word in the Markdown": (lambda f: f.edit("html", "The chapter", "A chapter"), NOT_ITS),
    "Quarto's hash": (lambda f: f.edit("html", '"hash": "', '"hash": "0'), NOT_ITS),
    "a blank in the Markdown's file": (lambda f: f.edit("html", "{\n", "{ \n"), NOT_ITS),
    "the Markdown of another chapter": (lambda f: f.take("html"), NOT_ITS),
    "new figure, old Markdown": (lambda f: f.earlier("html"), NOT_ITS),
    "Markdown cut short": (lambda f: f.cut("html", 0.5), "its html.json is not readable"),
    "Markdown without content": (lambda f: f.cut("html", 0), "its html.json is empty"),
    "a merge left in the Markdown": (
        lambda f: f.conflict("html"),
        "its html.json holds merge conflict marks",
    ),
    "Markdown in another encoding": (
        lambda f: f.html.write_bytes(f.html.read_text().encode("utf-16")),
        NOT_ITS,
    ),
    "Markdown that is no text": (
        lambda f: f.html.write_bytes(b"\xff\xfe\xfd"),
        "its html.json is not readable",
    ),
    "a mark of the byte order": (
        lambda f: f.html.write_bytes(b"\xef\xbb\xbf" + f.html.read_bytes()),
        NOT_ITS,
    ),
    "the Markdown removed": (lambda f: f.html.unlink(), "was never executed"),
    "a link in the Markdown's place": (
        lambda f: f.link("html"),
        "its html.json is a link to elsewhere",
    ),
    "a folder in the Markdown's place": (
        lambda f: (f.html.unlink(), f.html.mkdir()),
        "was never executed",
    ),
    "a number's value": (lambda f: f.edit("numbers", "0.5,", "0.6,"), BY_HAND.format("numbers")),
    "numbers of an earlier run": (lambda f: f.earlier("numbers"), BY_HAND.format("numbers")),
    "numbers of another chapter": (lambda f: f.take("numbers"), BY_HAND.format("numbers")),
    "numbers cut short": (lambda f: f.cut("numbers", 0.9), "its numbers.json is not readable"),
    "numbers removed": (lambda f: f.numbers.unlink(), "its numbers.json is missing"),
    "a merge left in the numbers": (
        lambda f: f.conflict("numbers"),
        "its numbers.json holds merge conflict marks",
    ),
    "an input's hash": (
        lambda f: f.edit("inputs", '"one": "', '"one": "0'),
        BY_HAND.format("inputs"),
    ),
    "an input left out": (
        lambda f: f.edit("inputs", '"ipykernel": ', '"no-kernel": '),
        BY_HAND.format("inputs"),
    ),
    "the seal": (lambda f: f.edit("inputs", '"seal": "', '"seal": "0'), BY_HAND.format("inputs")),
    "the seal removed": (
        lambda f: f.edit("inputs", '"seal"', '"unsealed"'),
        BY_HAND.format("inputs"),
    ),
    "a key given twice": (
        lambda f: f.edit("inputs", '  "data"', '  "data": {"x": "y"},\n  "data"'),
        BY_HAND.format("inputs"),
    ),
    "inputs of another chapter": (lambda f: f.take("inputs"), NOT_ITS),
    "inputs cut short": (lambda f: f.cut("inputs", 0.99), "its inputs.json is not readable"),
    "inputs removed": (lambda f: f.inputs.unlink(), "its inputs.json is missing"),
    "inputs that are a list": (
        lambda f: f.inputs.write_text("[]"),
        "its inputs.json is not readable",
    ),
    "brackets without end": (
        lambda f: f.inputs.write_text("[" * 99_999),
        "its inputs.json is not readable",
    ),
    "a merge left in the inputs": (
        lambda f: f.conflict("inputs"),
        "its inputs.json holds merge conflict marks",
    ),
    "a forged seal around nothing": (
        lambda f: f.inputs.write_text(
            json.dumps({"format": 1, "seal": _seal({"format": 1})}, indent=2) + "\n"
        ),
        "its inputs.json is not what this build writes",
    ),
    "another format": (lambda f: f.reseal(format=0), "its freeze is in an older format"),
    "old figure, new Markdown": (
        lambda f: f.earlier("figure"),
        FIGURE.format("not the one that was frozen"),
    ),
    "the figure of another chapter": (
        lambda f: f.take("figure"),
        FIGURE.format("not the one that was frozen"),
    ),
    "a figure cut short": (
        lambda f: f.cut("figure", 0.5),
        FIGURE.format("not the one that was frozen"),
    ),
    "a figure removed": (lambda f: f.figure.unlink(), FIGURE.format("missing")),
    "all figures removed": (lambda f: shutil.rmtree(f.figure.parent), FIGURE.format("missing")),
    "a figure renamed": (
        lambda f: f.figure.rename(f.figure.with_name("fig-other-output-1.svg")),
        FIGURE.format("missing"),
    ),
    "a figure too many": (
        lambda f: shutil.copy(f.figure, f.figure.with_name("fig-more-output-1.svg")),
        "its figure fig-more-output-1.svg belongs to another run",
    ),
    "a link in a figure's place": (
        lambda f: f.link("figure"),
        "its fig-drawn-output-1.svg is a link to elsewhere",
    ),
    "the freeze of another chapter": (
        lambda f: (shutil.rmtree(f.folder), shutil.copytree(f.other.folder, f.folder)),
        "its freeze is that of another chapter",
    ),
    "a link in the freeze's place": (
        lambda f: (f.folder.rename(f.root / "aside"), f.folder.symlink_to(f.root / "aside")),
        "its folder is a link to elsewhere",
    ),
    "the whole freeze removed": (lambda f: shutil.rmtree(f.folder), "was never executed"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_done_is_found_named_and_mended(book, books, kind):
    tamper, reason = KINDS[kind]
    then = books.contents(book / "_freeze")
    assert states(book) == FRESH
    tamper(Freeze(book))
    assert states(book) == {PATH: reason, OTHER: "fresh"}
    assert books.bring_up_to_date(book).ran == (PATH,)
    assert states(book) == FRESH
    assert books.contents(book / "_freeze") == then
    assert not any(path.is_symlink() for path in (book / "_freeze").rglob("*"))


def test_two_chapters_that_swapped_their_figures_are_both_named(book):
    one, two = Freeze(book).figure, Freeze(book, OTHER).figure
    contents = one.read_bytes(), two.read_bytes()
    two.write_bytes(contents[0])
    one.write_bytes(contents[1])
    assert set(states(book).values()) == {FIGURE.format("not the one that was frozen")}


def test_a_checkout_with_windows_line_endings_is_not_tampering(book):
    for path in (book / "_freeze").rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    (book / PATH).write_bytes((book / PATH).read_bytes().replace(b"\n", b"\r\n"))
    assert states(book) == FRESH


def test_what_the_system_lays_beside_is_not_tampering(book):
    (Freeze(book).folder / ".DS_Store").write_bytes(b"\0")
    (Freeze(book).html.parent / "pdf.json").write_text("{}")  # Quarto's, for another format
    assert states(book) == FRESH


def test_who_computes_every_hash_anew_is_found_by_verify_alone(book):
    """The limit of hashing: no key is secret. `book verify` executes, and compares bytes."""
    forged = Freeze(book)
    forged.edit("html", "[0.5000]", "[0.6000]")
    digest = _sha256(forged.html.read_bytes())
    numbers = json.loads(forged.numbers.read_text()) | {"freeze": digest}
    forged.numbers.write_text(json.dumps(numbers, indent=2, ensure_ascii=False) + "\n")
    forged.reseal(freeze=digest, numbers=_sha256(forged.numbers.read_bytes()))
    assert states(book) == FRESH

    from bookbuild.build import Listener
    from bookbuild.verify import verify

    (book / ".book").mkdir(exist_ok=True)
    found = verify(plan(load_project(book)), jobs=2, timeout=60, listener=Listener())
    named = {one.chapter: one.problems for one in found if one.problems}
    assert list(named) == [PATH]
    assert "execute-results/html.json differs" in named[PATH]
