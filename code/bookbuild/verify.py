"""Execute everything from nothing and compare with the committed freeze. Writes nothing."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from bookbuild import freeze as freezing
from bookbuild.build import Listener, Plan, check_bindings, execute_stale
from bookbuild.freeze import Frozen
from bookbuild.problems import BookError, Problem
from bookbuild.stale import Verdict

NUMBER = re.compile(r"[-−]?\d[\d,]*\.?\d*(?:[eE][-+]?\d+)?")


@dataclass(frozen=True)
class Comparison:
    chapter: str
    numbers: int
    identical: bool
    same_environment: bool
    problems: tuple[str, ...] = ()


def verify(plan: Plan, *, jobs: int, timeout: float, listener: Listener) -> list[Comparison]:
    """Compare each chapter's frozen results with freshly computed ones.

    On the machine and libraries that froze them, bytes must agree. Elsewhere the ledger's
    tolerances hold the numbers (the execution itself fails on a drift), texts must agree, and
    numbers printed by cells may differ in their last digits. Raises BookError for a failed
    chapter or a broken tie.
    """
    from_nothing = tuple(
        v if v.state == "plain" else Verdict(v.source, "stale", v.reason or "from nothing")
        for v in plan.verdicts
    )
    fresh = Plan(plan.project, plan.ledger, plan.settings, from_nothing)
    made = execute_stale(fresh, jobs=jobs, timeout=timeout, listener=listener, keep=False)
    check_bindings(fresh, made)
    return against_freeze(plan, made)


def against_freeze(plan: Plan, made: Mapping[str, Frozen]) -> list[Comparison]:
    """Compare chapters executed from nothing, by path, with the committed freeze.

    Raises BookError where that freeze is stale, whatever its numbers are.
    """
    stale = [
        Problem(v.source.path, 0, f"the committed freeze is stale: {v.reason}")
        for v in plan.verdicts
        # Whether another Python gives the same is what is asked here.
        if v.state in ("stale", "prose") and not v.reason.startswith("Python was")
    ]
    if stale:
        raise BookError(stale)
    frozen = {v.source.path: v.frozen for v in plan.verdicts if v.frozen is not None}
    return [compare(path, frozen[path], made[path]) for path in sorted(made)]


def compare(path: str, then: Frozen, now: Frozen) -> Comparison:
    """How a fresh execution of a chapter differs from its freeze."""
    same = then.numbers["environment"] == now.numbers["environment"]
    problems = []
    if then.files != now.files:
        if same:
            problems = [
                f"{name} differs" for name in sorted({*then.files, *now.files})
                if then.files.get(name) != now.files.get(name)
            ]  # fmt: skip
        else:
            problems = list(_differences(then, now))
    return Comparison(
        path, len(now.numbers["numbers"]), then.files == now.files, same, tuple(problems)
    )


def _differences(then: Frozen, now: Frozen):
    """What may not differ on any machine."""
    ids = [{row["id"] for row in made.numbers["numbers"]} for made in (then, now)]
    if ids[0] != ids[1]:
        yield f"checks other numbers: {', '.join(sorted(ids[0] ^ ids[1]))}"
    # NumPy pads the columns of an array to its longest number: spaces differ with the digits.
    texts = [re.sub(r"[ \t]+", " ", NUMBER.sub("#", made.markdown)) for made in (then, now)]
    if texts[0] != texts[1]:
        yield f"its text differs: {_first_difference(*texts)}"
    figures = [{name for name in made.files if freezing.FIGURES in name} for made in (then, now)]
    if figures[0] != figures[1]:
        yield f"draws other figures: {', '.join(sorted(figures[0] ^ figures[1]))}"


def _first_difference(one: str, other: str) -> str:
    for left, right in zip(one.splitlines(), other.splitlines(), strict=False):
        if left != right:
            return f"{left!r} is now {right!r}"
    return "one is longer"


def summary(comparisons: list[Comparison]) -> Mapping[str, int]:
    return {
        "chapters": len(comparisons),
        "numbers": sum(c.numbers for c in comparisons),
        "identical": sum(c.identical for c in comparisons),
        "problems": sum(len(c.problems) for c in comparisons),
    }
