"""Build the book: decide, execute what is stale, check, render; only then replace what is there.

Everything is computed before anything is replaced, so a build that fails, in whatever way, leaves
the last good `_freeze` and the last good site as they were. What succeeded in a failed build is
kept in `.book/kept` and used by the next one.
"""

import shutil
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from bookbuild import drifts, swap, took
from bookbuild import freeze as freezing
from bookbuild.claims_check import wrong_claims
from bookbuild.freeze import Frozen
from bookbuild.kept import Kept
from bookbuild.placing import (
    WORK,
    alone,
    keep_freeze,
    kept_folder,
    replace_freezes,
    scratch_folder,
    write_freeze,
)
from bookbuild.policy import unsafe_in_markdown
from bookbuild.problems import BookError, Problem
from bookbuild.project import CONFIG, Project
from bookbuild.prose import unowned
from bookbuild.run import Failure, Run
from bookbuild.source import parse
from bookbuild.stale import Verdict, judge, settings_of
from bookbuild.uptodate import is_built, note_built, site_key
from bookbuild.worded import worded_of
from ledger.bindings import Bound, unbound
from ledger.entries import LEDGER, Entry, LedgerError, load_constants, load_ledger
from ledger.inputs import changes, digests, locked_versions

if TYPE_CHECKING:
    from bookbuild.warm import Nurseries


@dataclass(frozen=True)
class Plan:
    """A project as it is now, and what has to be done about each chapter."""

    project: Project
    ledger: Mapping[str, Entry]
    settings: Mapping[str, str]
    verdicts: tuple[Verdict, ...]

    @property
    def stale(self) -> tuple[Verdict, ...]:
        return tuple(verdict for verdict in self.verdicts if verdict.state == "stale")


@dataclass(frozen=True)
class Report:
    """What a build did."""

    ran: tuple[str, ...] = ()
    woven: tuple[str, ...] = ()
    fresh: tuple[str, ...] = ()
    rendered: tuple[str, ...] = ()
    pages: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)
    up_to_date: bool = False


class Listener:
    """Hears what a build is doing; the command line overrides what it wants to show."""

    def executing(self, verdicts: Sequence[Verdict], jobs: int) -> None: ...
    def finished(self, result: Run | Failure, reason: str) -> None: ...
    def rendering(self) -> None: ...


class ChaptersFailed(BookError):
    """Some chapters could not be executed, or drifted.

    ran, fresh: how many chapters ran well, and how many needed not. moved, held: how many numbers
    drifted, and how many of those that were computed did not.
    """

    def __init__(self, results: Sequence[Run | Failure], fresh: int):
        self.failures = tuple(result for result in results if isinstance(result, Failure))
        super().__init__([problem for one in self.failures for problem in one.problems])
        self.ran, self.fresh = len(results) - len(self.failures), fresh
        self.moved, self.held = drifts.counts(results)


def plan(project: Project, fresh: bool = False, only: Sequence[str] = ()) -> Plan:
    """Decide about every chapter. Raises BookError for sources or a ledger that cannot be used.

    Args:
        fresh: execute from nothing whatever the freeze says.
        only: names of the chapters to execute; the others are taken as they are frozen.
    """
    try:
        ledger = load_ledger(project.root / LEDGER)
        constants = load_constants(project.root / LEDGER)
    except LedgerError as error:
        raise BookError([problem_of(line) for line in str(error).splitlines()]) from None
    sources, problems = [], []
    for chapter in project.chapters:
        try:
            sources.append(parse(chapter.path, project.source(chapter)))
        except BookError as error:
            problems += error.problems
        except UnicodeDecodeError as error:
            problems.append(Problem(chapter.path, 0, f"is not UTF-8: {error.reason}"))
    if ledger:  # a book without one makes no promise about its numbers
        problems += unowned(project, sources, ledger, constants, project.root / WORK)
    if problems:
        raise BookError(problems)
    names = {project.chapter(name).path for name in only}
    settings = settings_of(project)
    locked, entries = locked_versions(project.root), digests(ledger.values())

    def changed(inputs):
        return changes(inputs, project.root, entries, locked)

    verdicts = []
    for source in sources:
        place = project.root / freezing.folder_of(source.path)
        verdict = judge(source, freezing.read(place), settings, changed)
        if fresh and verdict.state != "plain" and (not names or source.path in names):
            verdict = Verdict(source, "stale", "asked to execute from nothing")
        elif verdict.state == "stale":
            kept = freezing.read(kept_folder(project.root, source.path))
            if kept is not None:
                earlier = judge(source, kept, settings, changed)
                if earlier.state in ("fresh", "prose"):
                    verdict = Verdict(
                        source, "prose", "executed by an earlier build", earlier.frozen
                    )
        verdicts.append(verdict)
    return Plan(project, ledger, settings, tuple(verdicts))


def execute_stale(
    plan: Plan,
    *,
    jobs: int,
    timeout: float,
    listener: Listener,
    only: Sequence[str] = (),
    keep: bool = True,
    kept: "Nurseries | None" = None,
) -> dict[str, Frozen]:
    """Execute what is stale; all usable freezes by chapter path. Writes only below `.book`.

    Each chapter's result is kept as soon as it is there, so that whatever fails or stops the build
    afterwards, the next one need not execute it again. Raises ChaptersFailed when a chapter fails.
    """
    names = {plan.project.chapter(name).path for name in only}
    todo = [v for v in plan.stale if not names or v.source.path in names]
    frozen = {v.source.path: v.frozen for v in plan.verdicts if v.frozen is not None}
    if not todo:
        drifts.note(plan.project.root, [])
        return frozen
    from bookbuild.variables import kernel_environment
    from bookbuild.warm import nurseries

    reasons = {verdict.source.path: verdict.reason for verdict in todo}
    entries = digests(plan.ledger.values())

    def finished(result: Run | Failure) -> None:
        path = result.source.path
        if isinstance(result, Run):
            if not result.record["ledger"].items() <= entries.items():
                raise BookError(Problem(LEDGER, 0, f"was edited while {path} ran; build again"))
            frozen[path] = freezing.freeze(result, plan.ledger, plan.settings)
            if keep:
                keep_freeze(plan.project.root, frozen[path], kept_folder(plan.project.root, path))
        listener.finished(result, reasons[path])

    listener.executing(todo, jobs)
    root, sources = plan.project.root, [verdict.source for verdict in todo]
    environment = kernel_environment(root)
    # What is not kept is compared: with kernels started alone, that says something of these too.
    cold = nullcontext({})
    with nurseries(root, sources, environment, kept) if keep else cold as warm:
        from bookbuild.execute import execute  # Jupyter: half a second, while others import more

        results = execute(
            plan.project,
            took.longest_first(root / WORK, sources),
            jobs=jobs,
            timeout=timeout,
            environment=environment,
            done=finished,
            warm=warm,
        )
    results.sort(key=lambda result: sources.index(result.source))
    if keep:
        took.note(root / WORK, results)
    drifts.note(plan.project.root, results)
    if any(isinstance(result, Failure) for result in results):
        raise ChaptersFailed(results, len(plan.verdicts) - len(todo))
    return frozen


def check_bindings(plan: Plan, frozen: Mapping[str, Frozen]) -> None:
    """Raise BookError where ledger and chapters do not match. Needs every chapter's freeze."""
    executable = [v.source.path for v in plan.verdicts if v.state != "plain"]
    if any(path not in frozen for path in executable):
        return  # a partial run; the whole build will tell
    bounds = []
    for verdict in plan.verdicts:
        path = verdict.source.path
        numbers = frozen[path].numbers if path in frozen else {"numbers": (), "said": ()}
        bounds.append(
            Bound(
                path,
                tuple(number["id"] for number in numbers["numbers"]),
                tuple(numbers["said"]),
                tuple(id for words in worded_of(verdict.source) for id in words.ids),
            )
        )
    if found := unbound(plan.ledger, plan.project.root, bounds):
        raise BookError([Problem(*one) for one in found])


def check_outputs(plan: Plan, frozen: Mapping[str, Frozen]) -> None:
    """Raise BookError for code in what chapters show, whoever renders it."""
    found = []
    for source in (verdict.source for verdict in plan.verdicts if verdict.source.path in frozen):
        markdown = frozen[source.path].markdown
        written = markdown.split("\n")
        for line, text in unsafe_in_markdown(markdown):
            at = source.text.find(written[line - 1].strip() or "\0")
            place = source.text.count("\n", 0, at) + 1 if at >= 0 else 0
            found.append(Problem(source.path, place, f"{text}; a page runs nothing of its own"))
    if found:
        raise BookError(found)


def check_pages(root: Path, site: Path, freeze: Path) -> None:
    """Raise BookError where a rendered page does not say what ledger and freeze say."""
    kept = Kept(root / WORK / "claims.json")
    found = [Problem(*one) for one in wrong_claims(root, site, freeze, kept)]
    kept.save()
    if found:
        raise BookError(found)


def build(
    project: Project,
    *,
    jobs: int,
    timeout: float = 600.0,
    fresh: bool = False,
    only: Sequence[str] = (),
    render: bool = True,
    execute: bool = True,
    listener: Listener | None = None,
    kept: "Nurseries | None" = None,
) -> Report:
    """Bring freeze and site up to date. Raises BookError with all that is wrong.

    Args:
        kept: processes that kernels are forked from, for a caller that builds again and again.
    """
    listener = listener or Listener()
    with alone(project.root), scratch_folder(project.root) as scratch:
        site, work = project.root / project.output_dir, project.root / WORK
        _refuse_foreign(project, site)
        swap.recover(site)
        now = plan(project, fresh, only)
        if not execute and now.stale:
            raise BookError(
                [
                    Problem(v.source.path, 0, f"is stale: {v.reason}; run book execute")
                    for v in now.stale
                ]
            )
        if render and only:
            names = {project.chapter(name).path for name in only}
            if left := [v for v in now.stale if v.source.path not in names]:
                raise BookError(
                    [Problem(v.source.path, 0, f"is stale: {v.reason}; build it too") for v in left]
                )
        frozen = execute_stale(
            now, jobs=jobs, timeout=timeout, listener=listener, only=only, kept=kept
        )
        done = [v.source.path for v in now.stale if v.source.path in frozen]
        replaced = [v for v in now.verdicts if v.source.path in done or v.state == "prose"]
        report = {
            "ran": tuple(done),
            "woven": tuple(v.source.path for v in now.verdicts if v.state == "prose"),
            "fresh": tuple(v.source.path for v in now.verdicts if v.state in ("fresh", "plain")),
        }
        sources = [verdict.source for verdict in now.verdicts]
        key = site_key(project, sources, frozen) if render else ""
        if render and not replaced and is_built(project, work, key):
            return Report(**report, up_to_date=True)  # all that is checked below held for this key
        check_bindings(now, frozen)
        check_outputs(now, frozen)
        pages = None
        if render:
            listener.rendering()
            pages = _render(now, frozen, scratch, jobs)
        replace_freezes(project, {v.source.path: frozen[v.source.path] for v in replaced}, scratch)
        shutil.rmtree(project.root / WORK / "kept", ignore_errors=True)
        if render:
            swap.put(scratch / "site", site)
            note_built(project, work, key)
            report |= {"rendered": tuple(pages.rendered), "pages": len(project.chapters)}
        return Report(**report)


def markdown_of(plan: Plan, frozen: Mapping[str, Frozen]) -> dict[str, str]:
    """Each chapter's Markdown for the renderer: from its freeze, or its text if it has no code."""
    return {
        v.source.path: frozen[v.source.path].markdown if v.source.path in frozen else v.source.text
        for v in plan.verdicts
    }


def _render(plan: Plan, frozen: Mapping[str, Frozen], scratch: Path, jobs: int):
    from bookbuild.render import render_site  # imports Jinja and finds pandoc

    # The filters read numbers.json below a `_freeze` folder: give them one with the new ones.
    folder = scratch / "rendered-from"
    for path, made in frozen.items():
        write_freeze(made, folder / freezing.folder_of(path))
    output = scratch / "site"
    output.mkdir()
    report = render_site(
        plan.project,
        output,
        markdown_of(plan, frozen),
        {path: folder / freezing.folder_of(path) / freezing.FIGURES for path in frozen},
        plan.project.root / WORK / "pages",
        jobs,
        freeze=folder / freezing.FREEZE,
    )
    check_pages(plan.project.root, output, folder / freezing.FREEZE)
    return report


def _refuse_foreign(project: Project, site: Path) -> None:
    """Raise BookError where the site would replace a folder that is no site."""
    if site.is_dir() and any(site.iterdir()) and not any(site.rglob("*.html")):
        text = f"output-dir {project.output_dir} holds files that are no site; name another folder"
        raise BookError(Problem(CONFIG, 0, text))


def problem_of(line: str) -> Problem:
    """A line of a LedgerError as a problem of the book."""
    path, number, text = line.split(":", 2)
    return Problem(path, int(number), text.strip())
