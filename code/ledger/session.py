"""`check` and `say`: the two words a chapter uses. One session a kernel."""

import difflib
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ledger.causes import causes, entry_changed
from ledger.entries import LEDGER, Entry, load_ledger
from ledger.values import NO_BREAK_SPACE, Value, deviation, plain, shape, show

CONFIG = "_quarto.yml"
# A text value may hold what would end a Markdown attribute, a table's cell or a formula.
ATTRIBUTE = str.maketrans({'"': "”", "|": "∣", "$": "＄", "`": "’", "\\": "∖", "\n": " "})
# All that Markdown could read as its own: emphasis, citations, quotes, dashes, superscripts.
ESCAPED = re.compile(r"[!-/:-@\[-`{-~]")


class DriftError(AssertionError):
    """A recomputed number is outside its tolerance."""

    def _render_traceback_(self):
        # Jupyter shows this instead of frames of our own code, which say nothing about it.
        return str(self).splitlines()


class UnknownNumber(KeyError):
    """A number that the ledger does not list, or that was not checked before it is said."""

    def __str__(self):
        return self.args[0]


@dataclass(frozen=True)
class Drift:
    """A number outside its tolerance: what came instead, on which line it is checked, in words."""

    id: str
    got: Value
    line: int
    message: str


@dataclass
class Session:
    """What one document has checked so far."""

    root: Path
    document: str  # relative to root; empty in a notebook of the reader's own
    ledger: dict[str, Entry]
    checked: dict[str, Value] = field(default_factory=dict)
    said: set[str] = field(default_factory=set)
    drifts: list["Drift"] = field(default_factory=list)
    # Under the book's own build every id is checked exactly once, and a drift does not stop the
    # chapter: the build fails at its end, with all drifts at once.
    building: bool = False
    _causes: list[str] | None = None

    def check(self, id: str, value: Any) -> Any:
        entry = self._entry(id)
        if self.building and id in self.checked:
            raise UnknownNumber(
                f"{self._where(id)}{id} is checked twice; give the second its own entry"
            )
        got = plain(value)
        off = deviation(entry.value, got)
        self.checked[id] = got
        if off > entry.tolerance:
            self._drifted(entry, got, off)
        return value

    def say(self, id: str) -> "Said":
        entry = self._entry(id)
        self.said.add(id)
        # Another chapter's number is quoted as the ledger has it: its own check holds it true.
        value = self.checked.get(id, entry.value)
        return Said(entry, entry.show(value))

    def _entry(self, id: str) -> Entry:
        if id in self.ledger:
            return self.ledger[id]
        near = difflib.get_close_matches(id, self.ledger, n=3)
        hint = f"; nearest: {', '.join(near)}" if near else ""
        raise UnknownNumber(f"{self._where(id)}{LEDGER} has no entry {id}{hint}")

    def _where(self, id: str) -> str:
        line, _ = self._place(id)
        return f"{self.document}:{line}: " if line else ""

    def _place(self, id: str) -> tuple[int, str]:
        """Line of the document that checks `id`, and the label of its cell."""
        try:
            text = (self.root / self.document).read_text(encoding="utf-8")
        except OSError:
            return 0, ""
        call = re.compile(rf"""\bcheck\(\s*(["']){re.escape(id)}\1""")
        if not (found := call.search(text)):
            return 0, ""
        before = text[: found.start()]
        labels = re.findall(r"^#\| label:(.*)$", before, re.MULTILINE)
        return before.count("\n") + 1, labels[-1].strip() if labels else ""

    def _drifted(self, entry: Entry, got: Value, off: float) -> None:
        line, label = self._place(entry.id)
        lines = [
            f"{entry.id} drifted{_how_far(entry, got, off)}",
            f"  what      {entry.statement}",
            f"  expected  {_text(entry.value)} {entry.band} ({entry.reason})",
            f"  got       {_text(got)}",
        ]
        if line:
            lines.append(
                f"  where     {self.document}:{line}" + (f", cell {label}" if label else "")
            )
        lines.append(f"  changed   {self._since(entry)}")
        lines.append(f'  if the new value is right: book accept {entry.id} --reason "…"')
        message = "\n".join(lines)
        if not self.building:
            raise DriftError(message)
        self.drifts.append(Drift(entry.id, got, line, message))

    def _since(self, entry: Entry) -> str:
        """What differs from the run that was frozen last."""
        try:
            if self._causes is None:  # looked up once: it asks git and every library
                self._causes = causes(self.root, self.document)
            own = [f"ledger entry {entry.id} changed"] * entry_changed(
                self.root, self.document, entry
            )
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            return "unknown: this chapter has no usable freeze"
        return ", ".join(own + self._causes) or "nothing that the last run recorded"


@dataclass(frozen=True)
class Said:
    """A verified number in prose. Markdown for the page, its plain text for a notebook's reader."""

    entry: Entry
    text: str

    def _repr_markdown_(self) -> str:
        entry = self.entry
        expected = f"{_text(entry.value, form=entry.format)}{_unit(entry)}"
        band = "exactly" if entry.tolerance == 0 else f"within {show(entry.tolerance, '.2g')}"
        title = f"{entry.statement}. Expected {expected}, {band}: {entry.reason}. "
        title = f"{title}Source: {entry.source}".translate(ATTRIBUTE)
        text = ESCAPED.sub(r"\\\g<0>", self.text) if isinstance(entry.value, str) else self.text
        return f'[{text}]{{.claim data-claim="{entry.id}" title="{title}"}}'

    def __repr__(self) -> str:
        return self.text


def _how_far(entry: Entry, got: Value, off: float) -> str:
    if off == float("inf"):
        want, have = shape(entry.value), shape(got)
        if want != have:
            return f": its shape is {have}, expected {want}"
        kinds = type(got), type(entry.value)
        if kinds[0] is not kinds[1] and not {*kinds} <= {int, float}:
            return f": its kind is {kinds[0].__name__}, expected {kinds[1].__name__}"
        return ""  # another text, another truth, NaN: there is no distance
    if entry.tolerance == 0:
        return f" by {off:g}; it must be exact"
    return f" by {off / entry.tolerance:.3g} tolerances"


def _unit(entry: Entry) -> str:
    return f"{NO_BREAK_SPACE}{entry.unit}" if entry.unit else ""


def _text(value: Value, form: str = "") -> str:
    """A value at full precision, shortened in the middle where an array would fill the screen."""
    text = show(value, form if isinstance(value, bool) or form == "shape" else "")
    return text if len(text) <= 160 else f"{text[:90]} … {text[-60:]}"


_session: Session | None = None


def session() -> Session:
    """This kernel's session, started by the first check: it finds the book's folder by itself."""
    global _session
    if _session is None:
        root = ledger_root()
        document = ""
        if name := os.environ.get("QUARTO_DOCUMENT_FILE"):
            path = Path(os.environ.get("QUARTO_DOCUMENT_PATH", "."), name)
            document = (root / path).resolve().relative_to(root).as_posix()
        _session = Session(root, document, load_ledger(root / LEDGER))
    return _session


def ledger_root() -> Path:
    """Where the ledger is: in the book's folder, or, in a reader's notebook elsewhere, with this
    package, which was installed from a source tree or carries a copy.
    """
    package = Path(__file__).resolve()
    try:
        told = [find_root()]
    except FileNotFoundError:
        told = []
    for folder in (*told, package.parents[2], package.parent):
        if (folder / LEDGER).is_file():
            return folder
    return find_root()


def find_root() -> Path:
    """The book's folder: told by Quarto, or the nearest one above that has a `_quarto.yml`."""
    told = os.environ.get("QUARTO_PROJECT_ROOT")
    here = Path(told) if told else Path.cwd()
    for folder in (here, *here.parents):
        if (folder / CONFIG).is_file():
            return folder.resolve()
    raise FileNotFoundError(
        f"no {CONFIG} in {here} or above it: run this inside the book's folder, "
        f"or name that folder in QUARTO_PROJECT_ROOT"
    )


def check(id: str, value: Any) -> Any:
    """Compare `value` with the ledger's entry `id`, record it, and return it unchanged.

    Args:
        id: an id of `ledger.toml`.
        value: a number, text or truth, or an array, tensor, list or tuple of numbers.

    Raises:
        DriftError: the value is outside the entry's tolerance, or of another shape or kind.
        UnknownNumber: the ledger has no such id, or it was checked before in this build.
    """
    return session().check(id, value)


def say(id: str) -> Said:
    """The checked value of `id`, formatted, for an inline expression in prose or in a formula."""
    return session().say(id)
