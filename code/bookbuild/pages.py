"""One page through pandoc: what it is given, what its result depends on, what it complains about.

A page is rendered without knowledge of the others, so its result stays valid for as long as the
page itself stays the same.
"""

import hashlib
import json
import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from bookbuild.problems import BookError, Problem
from bookbuild.project import CONFIG, Chapter, Project
from bookbuild.source import FRONT_MATTER

FILTERS = Path(__file__).parent / "filters"
BEFORE_CITATIONS = (
    "vocabulary", "verified-numbers", "environment-table", "how-sure", "speed", "backends",
    "claims", "callouts", "tabsets", "sections", "floats", "equations", "cells", "tables",
    "references", "links",
)  # fmt: skip
AFTER_CITATIONS = ("finish",)
FRONT_YAML = re.compile(r"\A---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*$", re.DOTALL | re.MULTILINE)
FENCED_CODE = re.compile(r"^(`{3,}|~{3,})[^\n]*\n.*?^\1[`~]*[ \t]*$", re.DOTALL | re.MULTILINE)
OWN_REFERENCES = re.compile(r"^:{3,}\s*\{\s*#refs\s*[^}]*\}\s*$", re.MULTILINE)
WORDED = re.compile(r"\{[^{}]*\.worded\b[^{}]*\}")
WORDED_ID = re.compile(r"""data-(?:claim|over)=["']?([\w-]+)""")
GENERATED = re.compile(
    r"^:{3,}.*\b(verified-numbers|verified-summary|environment-table)\b", re.MULTILINE
)
SHOWN_CELL = re.compile(r"::: \{#(\S+) \.cell")
SPEED = re.compile(r"^:{3,}.*\bspeed-[a-z]+\b", re.MULTILINE)
TRIALS = re.compile(r"^:{3,}.*\bsure-[a-z]+\b", re.MULTILINE)
BACKENDS = re.compile(r"^:{3,}.*\bbackends-[a-z]+\b", re.MULTILINE)


@dataclass(frozen=True)
class Job:
    """All that one page's fragment depends on, besides the filters and pandoc."""

    chapter: Chapter
    markdown: str
    metadata: tuple[tuple[str, str], ...]
    bibliography: tuple[str, ...]
    csl: str | None


class PandocError(Exception):
    """What pandoc or its filters said against one page, still without a line."""

    def __init__(self, texts: list[str]):
        self.texts = texts
        super().__init__("\n".join(texts))


def job_for(project: Project, chapter: Chapter, markdown: str, cited: Iterable[str]) -> Job:
    """What pandoc is to do for one page. One with #refs also lists `cited`, other pages' keys."""
    own = has_own_references(markdown)
    front = front_matter(markdown)
    metadata = {
        "lang": project.lang,
        "link-citations": "true",
        "book-number": chapter.number or "",
        "book-number-depth": str(project.html.get("number-depth", 6)),
        "book-root": root_of(chapter.path),
        "book-own-references": str(own).lower(),
        "book-new-window": str(project.html.get("link-external-newwindow", False)).lower(),
    }
    for key in ("code-fold", "code-line-numbers"):
        if key in project.html and key not in front:
            metadata[key] = str(project.html[key]).lower()
    if own:
        # As a second block of metadata: on the command line the keys would be text, not citations.
        keys = [f"@{key}" for key in sorted(set(cited))]
        nocite = ", ".join(filter(None, [*keys, str(front.get("nocite", ""))]))
        markdown += f"\n\n---\nnocite: {json.dumps(nocite, ensure_ascii=False)}\n---\n"
    settings = tuple(sorted(metadata.items()))
    return Job(chapter, markdown, settings, project.bibliography, project.csl)


def has_own_references(markdown: str) -> bool:
    """Whether the page has a div #refs, and so lists what the whole book cites, as in Quarto."""
    return bool(OWN_REFERENCES.search(FENCED_CODE.sub("", markdown)))


def root_of(path: str) -> str:
    """From a page to the site's root: `../` for `chapters/masking.qmd`."""
    return "../" * path.count("/")


def front_matter(markdown: str) -> Mapping[str, Any]:
    """The YAML block at the head of a page. What is not YAML counts as none; pandoc reports it."""
    found = FRONT_YAML.match(markdown)
    if not found:
        return {}
    try:
        data = yaml.load(found.group(1), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError:
        return {}
    return data if isinstance(data, Mapping) else {}


def check_front_matter(chapter: Chapter, source: str) -> list[Problem]:
    """Refuse the keys that this build would ignore."""
    known = ", ".join(sorted(FRONT_MATTER))
    return [
        Problem(
            chapter.path,
            find_line(source, f"{key}:"),
            f"{key} is a key of the front matter that this build does not know; it knows {known}",
        )
        for key in front_matter(source)
        if key not in FRONT_MATTER
    ]


def find_line(source: str, *needles: str) -> int:
    """Line of the first needle that occurs in the source as a word of its own; 0 if none does."""
    for needle in filter(None, needles):
        start = r"(?<![\w-])" if re.match(r"\w", needle) else ""
        end = r"(?![\w-])" if re.search(r"\w$", needle) else ""
        found = re.search(start + re.escape(needle) + end, source)
        if found:
            return source.count("\n", 0, found.start()) + 1
    return 0


# What a page depends on.


def pandoc_path() -> Path:
    """The pandoc that came with the environment, found without starting it."""
    spec = find_spec("pypandoc")
    if spec and spec.origin:
        for name in ("pandoc", "pandoc.exe"):
            path = Path(spec.origin).parent / "files" / name
            if path.is_file():
                return path
    import pypandoc  # looks further, and starts each candidate for it

    try:
        return Path(pypandoc.get_pandoc_path())
    except OSError:
        text = "pandoc was not found; it comes with the Python package pypandoc_binary"
        raise BookError(Problem("requirements.lock", 0, text)) from None


def tools_hash(pandoc: Path) -> str:
    """Hash of what makes fragments: pandoc (by size and time), the filters, this code."""
    stat = pandoc.stat()
    here = Path(__file__)
    files = [here, *(here.with_name(f"render_{name}.py") for name in ("fragment", "formulas"))]
    files += [FILTERS / f"{name}.lua" for name in BEFORE_CITATIONS + AFTER_CITATIONS]
    return _hash([f"{stat.st_size} {stat.st_mtime_ns}".encode(), *(p.read_bytes() for p in files)])


def job_hash(job: Job, root: Path, freeze: Path, tools: str) -> str:
    """Name of the fragment in the cache: everything that it depends on."""
    described = [job.chapter.path, job.markdown, job.metadata, job.bibliography, job.csl]
    parts = [tools.encode(), json.dumps(described, ensure_ascii=False).encode()]
    files = [root / name for name in (*job.bibliography, *filter(None, [job.csl]))]
    if GENERATED.search(job.markdown):
        files.append(root / CONFIG)
        parts += _frozen_facts(freeze)
    if TRIALS.search(job.markdown):
        names = ("media/data/mutation.json", "media/data/spread.json", "tests/faults.toml")
        read = [*(root / name for name in names), *sorted((root / "code/measured").rglob("*.py"))]
        files += [path for path in read if path.is_file()]
    if SPEED.search(job.markdown):
        files += [path for path in (root / "media/data/bench.json",) if path.is_file()]
    if BACKENDS.search(job.markdown):
        read = [root / "media/data/backends.json", root / "ledger.toml"]
        read += sorted((root / "code/measured").rglob("*.py"))
        files += [path for path in read if path.is_file()]
    parts += _numbers_in_words(job.markdown, freeze)
    return _hash([*parts, *(path.read_bytes() for path in files)])


def _frozen_facts(freeze: Path) -> Iterator[bytes]:
    """What the generated tables tell of the freezes: nothing of it moves when prose does."""
    for path in sorted(freeze.rglob("execute-results/numbers.json")):
        numbers, inputs = json.loads(path.read_bytes()), path.with_name("inputs.json")
        told = {key: value for key, value in numbers.items() if key not in ("freeze", "said")}
        ran = json.loads(inputs.read_bytes()) if inputs.is_file() else {}
        told["ran"] = [ran.get("libraries"), ran.get("python")]
        html = path.with_name("html.json")
        shown = html.read_text(encoding="utf-8") if html.is_file() else ""
        told["cells"] = SHOWN_CELL.findall(shown)  # numbers link to them
        yield json.dumps([path.relative_to(freeze).as_posix(), told], sort_keys=True).encode()


def _numbers_in_words(markdown: str, freeze: Path) -> Iterator[bytes]:
    """What `claims.lua` tells of the numbers that marked words rest on."""
    ids = {id for span in WORDED.findall(markdown) for id in WORDED_ID.findall(span)}
    if not ids:
        return
    for path in sorted(freeze.rglob("execute-results/numbers.json")):
        for number in json.loads(path.read_bytes())["numbers"]:
            if number["id"] in ids:
                yield json.dumps(number, sort_keys=True).encode()


def _hash(parts: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()


# Pandoc.


def run_pandoc(pandoc: Path, root: Path, freeze: Path, job: Job) -> str:
    """The page's HTML with its index. Raises PandocError for what pandoc or a filter refuses."""
    command = [
        str(pandoc), f"--data-dir={FILTERS}", "--from=markdown", "--to=html5", "--mathml",
        "--section-divs", "--wrap=none",
    ]  # fmt: skip
    command += [f"--metadata={key}={value}" for key, value in job.metadata]
    command += [f"--bibliography={path}" for path in job.bibliography]
    command += [f"--csl={job.csl}"] if job.csl else []
    command += [f"--lua-filter={FILTERS / name}.lua" for name in BEFORE_CITATIONS]
    command += ["--citeproc"] if job.bibliography else []
    command += [f"--lua-filter={FILTERS / name}.lua" for name in AFTER_CITATIONS]
    environment = {"BOOK_ROOT": str(root), "BOOK_FREEZE": str(freeze), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        command,
        input=job.markdown.encode(),
        capture_output=True,
        cwd=root,
        env={**os.environ, **environment},
        check=False,
    )
    stderr = done.stderr.decode(errors="replace")
    texts = list(complaints(stderr))
    if done.returncode and not texts:
        texts = [f"pandoc ended with code {done.returncode} and no message"]
    if texts:
        raise PandocError(texts)
    return done.stdout.decode()


def complaints(stderr: str) -> Iterator[str]:
    """Errors of filters, and pandoc's warnings; a missing citation is reported from the index."""
    for block in re.split(r"^(?=\[WARNING\]|\[ERROR\]|Error )", stderr, flags=re.MULTILINE):
        text = block.strip()
        refused = re.match(
            r"Error running filter \S*:\s*(.*?)(?:\nstack traceback:.*)?\Z", text, re.DOTALL
        )
        if refused:
            yield refused.group(1).strip()
        elif text and not re.match(r"\[WARNING\] Citeproc: citation \S+ not found", text):
            yield re.sub(r"^\[(WARNING|ERROR)\]\s*", "pandoc: ", text)


def locate(job: Job, source: str, text: str) -> Problem:
    """A complaint, with the line of the source that it is about.

    A filter quotes what it refuses, and the source is searched for that. A line that pandoc names
    is one of the executed page: the source is searched for the same text.
    """
    quoted = re.search(r"`([^`]+)`", text) or re.search(r"identifier '([^']+)'", text)
    placed = re.search(r"\bline (\d+)", text)
    lines = job.markdown.splitlines()
    line = 0
    if quoted:
        line = find_line(source, *_spellings(quoted.group(1)))
    elif placed and 0 < int(placed.group(1)) <= len(lines):
        line = find_line(source, lines[int(placed.group(1)) - 1].strip())
    elif "title" in text:
        line = 1
    if text.startswith("pandoc: "):
        text = re.sub(r"(,? at)?( \S+)? line \d+,? column \d+", "", text)
    return Problem(job.chapter.path, line, " ".join(text.split()))


def _spellings(quoted: str) -> list[str]:
    """How the source may spell what a filter quotes."""
    first = quoted.split("\n")[0]
    return [quoted, first, first.lstrip("@"), first.split(" ")[0]]
