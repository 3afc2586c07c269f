"""A page for all that is no site: resolved once, then copied as Markdown, notebook, print, EPUB.

The page goes through the filters that give the site its numbers, so that a figure has the same
number everywhere; what the site does by script or fold is set plainly. One run of pandoc a page,
kept in the cache like the site's own.
"""

import hashlib
import json
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from bookbuild.pages import (
    FILTERS,
    Job,
    complaints,
    has_own_references,
    job_for,
    job_hash,
    locate,
    pandoc_path,
    tools_hash,
)
from bookbuild.problems import BookError
from bookbuild.project import Chapter
from bookbuild.render_links import MARK, NO_BREAK_SPACE, Book, Target, link_of
from bookbuild.source import parse

PRINT = Path(__file__).parent / "print"
BEFORE_CITATIONS = (
    FILTERS / "vocabulary.lua", FILTERS / "verified-numbers.lua", FILTERS / "environment-table.lua",
    FILTERS / "how-sure.lua", FILTERS / "speed.lua", FILTERS / "backends.lua",
    FILTERS / "claims.lua", PRINT / "prepare.lua",
    FILTERS / "sections.lua", FILTERS / "floats.lua", FILTERS / "equations.lua",
    FILTERS / "references.lua", FILTERS / "links.lua",
)  # fmt: skip
AFTER_CITATIONS = (PRINT / "resolve.lua", PRINT / "copies.lua")


@dataclass(frozen=True)
class Page:
    """One page of the book, its references resolved.

    title, blocks: pandoc's JSON, where links lead as on the site; read from `document` where a copy
    of the whole book needs them. cells: see copies.lua.
    """

    chapter: Chapter
    document: str
    markdown: str
    cells: Sequence[Mapping[str, Any]]

    @cached_property
    def _read(self) -> Mapping[str, Any]:
        return json.loads(self.document)

    @property
    def title(self) -> Sequence[Mapping[str, Any]]:
        return self._read["meta"]["title"]["c"]

    @property
    def blocks(self) -> Sequence[Mapping[str, Any]]:
        return self._read["blocks"]


def prepare(
    book: Book, markdown: Mapping[str, str], freeze: Path, cache: Path, jobs: int, base: str = ""
) -> list[Page]:
    """All pages in book order. Raises BookError with what pandoc or a filter refuses.

    Args:
        markdown: path of a chapter -> its Markdown after execution.
        base: address of the site, with which links of a notebook begin; "" leaves them plain.
    """
    pandoc = pandoc_path()
    here = Path(__file__)
    tools = [tools_hash(pandoc), *map(_text, (*AFTER_CITATIONS, PRINT / "prepare.lua", here))]
    tools = _hash(tools)
    problems: list[Any] = []
    used: set[str] = set()

    def make(chapter: Chapter) -> Page | None:
        cited = _cited_elsewhere(book, chapter)
        job = job_for(book.project, chapter, markdown[chapter.path], cited)
        meta = _metadata(book, chapter, job, base)
        key = _hash([job_hash(job, book.project.root, freeze, tools), json.dumps(meta)])
        used.add(f"{key}.json")
        kept = cache / f"{key}.json"
        text = _kept(kept)
        if text is None:
            done = _run(pandoc, book, freeze, job, meta)
            if isinstance(done, list):
                source = book.project.source(chapter)
                problems.extend(locate(job, source, told) for told in done)
                return None
            text = _apart(done)
            _keep(kept, text)
        copied, _, document = text.partition("\n")
        copied = json.loads(copied)
        return Page(chapter, document, copied["markdown"], copied["cells"])

    with ThreadPoolExecutor(max(1, jobs)) as pool:
        pages = list(pool.map(make, book.project.chapters))
    if problems:
        raise BookError(problems)
    for path in cache.glob("*.json"):
        if path.name not in used:
            path.unlink(missing_ok=True)
    return pages


def _cited_elsewhere(book: Book, chapter: Chapter) -> Iterable[str]:
    """What the page with the references of the whole book lists besides its own."""
    if chapter != book.references:
        return ()
    return [key for fragment in book.fragments.values() for key in fragment.citations]


def heading_of(chapter: Chapter, title: str) -> str:
    """`2 Masking`, `Appendix A: Porting`, `Preface`."""
    if chapter.appendix:
        return f"Appendix {chapter.number}: {title}"
    return f"{chapter.number} {title}" if chapter.number else title


def _metadata(book: Book, chapter: Chapter, job: Job, base: str) -> dict[str, Any]:
    """What the filters are told of the rest of the book."""
    fragment = book.fragments[chapter.path]
    labels = {label for kind, label in MARK.findall(fragment.body + fragment.title) if label}
    source = parse(chapter.path, book.project.source(chapter))
    folder = chapter.href.rpartition("/")[0]
    return {
        "book-targets": {
            label: _described(chapter, label, book.targets[label]) for label in sorted(labels)
        },
        "book-cells": [cell.label for cell in source.cells],
        "book-cited": ["*"] if has_own_references(job.markdown) else list(fragment.citations),
        "book-heading": heading_of(chapter, fragment.text),
        "book-base": f"{base}{folder}/" if base and folder else base,
        "book-page": chapter.href.rpartition("/")[2],
    }


def _described(here: Chapter, label: str, target: Target) -> dict[str, str]:
    by_title = target.title and (not target.number or here.number is None)
    return {
        "href": link_of(here, target.chapter, label),
        "text": f"{target.prefix}{NO_BREAK_SPACE}{target.number}",
        "number": target.number,
        "title": target.title if by_title else "",
    }


def _run(
    pandoc: Path, book: Book, freeze: Path, job: Job, meta: Mapping[str, Any]
) -> str | list[str]:
    """Pandoc's JSON of the page, or what it complains about."""
    command = [
        str(pandoc), f"--data-dir={FILTERS}", "--from=markdown", "--to=json", "--wrap=none",
    ]  # fmt: skip
    command += [f"--metadata={key}={value}" for key, value in job.metadata]
    command += [f"--bibliography={path}" for path in job.bibliography]
    command += [f"--csl={job.csl}"] if job.csl else []
    command += [f"--lua-filter={path}" for path in BEFORE_CITATIONS]
    command += ["--citeproc"] if job.bibliography else []
    command += [f"--lua-filter={path}" for path in AFTER_CITATIONS]
    notes = json.dumps(meta, ensure_ascii=False, sort_keys=True)
    text = f"{job.markdown}\n\n``` {{#book-notes}}\n{notes}\n```\n"
    environment = {"BOOK_ROOT": str(book.project.root), "BOOK_FREEZE": str(freeze)}
    done = subprocess.run(
        command,
        input=text.encode(),
        capture_output=True,
        cwd=book.project.root,
        env={**os.environ, **environment, "LC_ALL": "C.UTF-8"},
        check=False,
    )
    texts = list(complaints(done.stderr.decode(errors="replace")))
    if done.returncode and not texts:
        texts = [f"pandoc ended with code {done.returncode} and no message"]
    return texts or done.stdout.decode()


def _apart(document: str) -> str:
    """The copies that pandoc's JSON carries, in a line before it: mostly they are all one needs."""
    meta = json.loads(document)["meta"]
    copied = {
        "markdown": meta["copy-markdown"]["c"] + "\n",
        "cells": json.loads(meta["copy-cells"]["c"]),
    }
    return f"{json.dumps(copied, ensure_ascii=False)}\n{document}"


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _kept(path: Path) -> str | None:
    try:
        digest, _, content = path.read_text(encoding="utf-8").partition("\n")
    except OSError:
        return None
    return content if digest == _hash([content]) else None


def _keep(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.{os.getpid()}.new")
    beside.write_text(f"{_hash([content])}\n{content}", encoding="utf-8", newline="\n")
    beside.replace(path)


def _hash(parts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()
