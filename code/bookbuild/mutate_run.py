"""Try each fault on the chapters that it can change, until one of their checks finds it.

Each fault is applied alone to a copy of the project. The cheapest chapter comes first, and in each
chapter the quick cells; a fault counts as survived only when every cell of every chapter that
imports its module has run. Results are kept as they come in, so an interrupted run goes on where
it stopped.
"""

import json
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from queue import Queue
from typing import Any

from bookbuild.mutate import Fault, Target, reached
from bookbuild.mutate_order import Order, as_written, order_of
from bookbuild.mutate_worker import Worker, warm_modules, worker
from bookbuild.problems import BookError, Problem
from bookbuild.variables import kernel_environment, share_of_cores

PATIENCE = 5  # a fault may take this many times what the chapter takes without it …
GRACE = 30.0  # … and so many seconds


@dataclass(frozen=True)
class Outcome:
    """What became of one fault. `how` is "" where it survived; `keys`: chapter -> its key then."""

    fault: str
    how: str
    chapter: str = ""
    cell: str = ""
    entry: str = ""
    message: str = ""
    seconds: float = 0.0
    keys: Mapping[str, str] = field(default_factory=dict)

    @property
    def killed(self) -> bool:
        return bool(self.how)

    def holds(self, fault: Fault, targets: Sequence[Target]) -> bool:
        """Whether nothing has changed that this outcome depends on.

        Of a fault that was found, only the chapter and the entry that found it matter.
        """
        today = {target.path: target for target in reached(fault, targets)}
        if self.killed:
            target = today.get(self.chapter)
            found = target and target.key_found(fault, self.entry)
            return found is not None and self.keys.get(self.chapter) == found
        return dict(self.keys) == {path: one.key_with(fault) for path, one in today.items()}


@dataclass(frozen=True)
class Usual:
    """A chapter without any fault: its order of cells, and what that takes."""

    key: str
    order: Order
    times: Mapping[str, float]
    cpu: float
    checked: tuple[str, ...]

    def seconds(self, labels: Sequence[str]) -> float:
        return sum(self.times.get(label, 0.0) for label in labels)

    def limit(self, labels: Sequence[str]) -> float:
        """Processor seconds after which these cells are taken to hang."""
        share = self.seconds(labels) / max(self.seconds(self.order.all), 1e-9)
        return PATIENCE * share * self.cpu + GRACE


class Kept:
    """Results on disk, one file each, so that they outlive an interruption."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def read(self, name: str) -> dict[str, Any] | None:
        try:
            return json.loads((self.folder / f"{name}.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    def write(self, name: str, content: Mapping[str, Any]) -> None:
        place = self.folder / f"{name}.json"
        temporary = place.with_suffix(f".{threading.get_ident()}")
        temporary.write_text(json.dumps(content), encoding="utf-8")
        temporary.replace(place)


def mutate(
    root: Path,
    faults: Sequence[Fault],
    targets: Sequence[Target],
    known: Mapping[str, Outcome],
    *,
    jobs: int,
    environment: Mapping[str, str],
    work: Path,
    done: Callable[[Outcome], None] = lambda outcome: None,
    usual: Callable[[str, float], None] = lambda chapter, seconds: None,
) -> list[Outcome]:
    """What becomes of each fault, in the order given.

    Args:
        known: earlier outcomes by the fault's id; those that still hold are taken over.
        jobs: how many chapters are tried at a time.
        environment: variables of the processes, complete.
        work: folder in which results are kept.
        done: called with each new outcome.
        usual: called with each chapter that was run without a fault, and its seconds.
    """
    kept = Kept(work)
    found, earlier = {}, {}
    for fault in faults:
        record = kept.read(f"fault-{fault.id}")
        for outcome in (known.get(fault.id), Outcome(**record) if record else None):
            if outcome:
                earlier[fault.id] = outcome
            if outcome and outcome.holds(fault, targets):
                found.setdefault(fault.id, outcome)
    left = [fault for fault in faults if fault.id not in found]
    needed = [t for t in targets if any(t in reached(fault, targets) for fault in left)]
    if left:
        modules = warm_modules(root)
        with ExitStack() as stack, _pool(jobs) as pool:
            free: Queue[Worker] = Queue()
            for _ in range(min(jobs, max(len(left), len(needed)))):
                free.put(stack.enter_context(worker(root, modules, environment)))
            measured = {t.path: pool.submit(_usual, t, free, kept, usual) for t in needed}

            def one(fault: Fault) -> Outcome:
                paths = [target.path for target in reached(fault, targets)]
                of = {path: measured[path].result() for path in paths}
                before = earlier.get(fault.id)
                outcome = _with_worker(free, lambda w: try_fault(w, fault, targets, of, before))
                kept.write(f"fault-{fault.id}", asdict(outcome))
                done(outcome)
                return outcome

            # Faults of chapters that are still to be measured wait for that: the others go first.
            waits = {target.path: not _is_measured(target, kept) for target in needed}
            left.sort(key=lambda f: any(waits[t.path] for t in reached(f, targets)))
            found |= {outcome.fault: outcome for outcome in pool.map(one, left)}
    return [found[fault.id] for fault in faults]


@contextmanager
def _pool(jobs: int) -> Iterator[ThreadPoolExecutor]:
    """Threads that start nothing more once something went wrong or the user has stopped."""
    pool = ThreadPoolExecutor(jobs)
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


def _with_worker(free: Queue, use: Callable[[Worker], Any]) -> Any:
    one = free.get()
    try:
        return use(one)
    finally:
        free.put(one)


def _name_of(target: Target) -> str:
    return f"chapter-{target.path.replace('/', '-').removesuffix('.qmd')}"


def _is_measured(target: Target, kept: Kept) -> bool:
    record = kept.read(_name_of(target))
    return record is not None and record["key"] == target.key


def _usual(target: Target, free: Queue, kept: Kept, told: Callable) -> Usual:
    """How the chapter runs without a fault; measured once for each state of the chapter."""
    name, record = _name_of(target), kept.read(_name_of(target))
    if record and record["key"] == target.key:
        return Usual(**record | {"order": Order(*map(tuple, record["order"]))})
    # A chapter that changed still takes about as long, cell by cell.
    before = record["times"] if record else {}
    began = time.monotonic()
    found = _with_worker(free, lambda w: measure(w, target, before))
    told(target.path, time.monotonic() - began)
    order = (found.order.quick, found.order.waiting)
    kept.write(name, {**asdict(found), "order": order})
    return found


def measure(one: Worker, target: Target, before: Mapping[str, float]) -> Usual:
    """Run a chapter as it is, and find an order of its cells in which it is as right as in its own.

    Raises BookError where the chapter is not right to begin with.
    """
    written = as_written(target.source.cells)
    order = order_of(target.source.cells, before) if before else written
    for attempt in (order, written):
        answer = one.run(target.path, attempt.all, 3600.0, ())
        if not answer["how"]:
            break
    else:
        text = f"is wrong without any fault: {answer.get('cell', '')}: {answer['message']}"
        raise BookError(Problem(target.path, 0, text))
    times, cpu, checked = answer["times"], answer["cpu"], tuple(answer["checked"])
    better = order_of(target.source.cells, times)
    if attempt is written and better != written and (not before or better != order):
        again = one.run(target.path, better.all, 3600.0, checked)
        if not again["how"]:
            attempt, times = better, again["times"]
    return Usual(target.key, attempt, times, cpu, checked)


def try_fault(
    one: Worker,
    fault: Fault,
    targets: Sequence[Target],
    usual: Mapping[str, Usual],
    before: Outcome | None = None,
) -> Outcome:
    """Look for a check that finds the fault: cheap cells of all chapters first, then all cells.

    Where another state of the book found it `before`, those cells come first of all.
    """
    chapters = reached(fault, targets)
    steps = []
    for target in chapters:
        how = usual[target.path]
        if how.order.waiting:
            steps.append((how.seconds(how.order.quick), target.path, how.order.quick, ()))
        steps.append((how.seconds(how.order.all), target.path, how.order.all, how.checked))
    seconds = 0.0
    with one.having(fault):
        steps.sort(key=lambda step: (not _found(before, step), step))
        for _, path, cells, expected in steps:
            answer = one.run(path, cells, usual[path].limit(cells), expected)
            seconds += answer["seconds"]
            if how := answer["how"]:
                if how == "leak" and "entry" not in answer and fault.file == "leaks.py":
                    how = "error"  # the broken detector itself, not what it found
                entry = answer.get("entry", "")
                (target,) = (each for each in chapters if each.path == path)
                return Outcome(
                    fault.id,
                    how,
                    path,
                    answer.get("cell", ""),
                    entry,
                    placeless(answer["message"], one.tree),
                    round(seconds, 1),
                    {path: target.key_found(fault, entry)},
                )
    keys = {target.path: target.key_with(fault) for target in chapters}
    return Outcome(fault.id, "", seconds=round(seconds, 1), keys=keys)


def placeless(message: str, tree: Path) -> str:
    """A message without the folders of the trial: the copy of the book, and temporary ones."""
    temporary = rf"{re.escape(tempfile.gettempdir())}/[^/\s:]+"
    return re.sub(temporary, "…", message.replace(str(tree), "…"))


def _found(before: Outcome | None, step: tuple[float, str, Sequence[str], Sequence[str]]) -> bool:
    """Whether these cells found the fault in another state of the book."""
    _, path, cells, _ = step
    return before is not None and before.chapter == path and before.cell in cells


def mutation_environment(root: Path, jobs: int) -> dict[str, str]:
    """Variables as kernels have them, and no more threads than cores for all jobs together."""
    return kernel_environment(root) | share_of_cores(jobs)
