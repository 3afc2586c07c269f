"""Put frozen outputs into an edited text: what a prose edit needs instead of an execution."""

from bookbuild.freeze import Frozen, assemble
from bookbuild.run import PieceResult
from bookbuild.source import Cell, Source


def weave(frozen: Frozen, source: Source) -> Frozen | None:
    """The freeze that executing `source` would give, made from the old one, or None.

    It can be made when only prose changed: the same cells in the same order, and each inline
    expression still standing between the same two cells. What only says a number may come again,
    move between its cells or go; any other expression could change the kernel's state, so of those
    there must be the same ones in the same order.
    """
    inputs = frozen.inputs
    markdown = frozen.markdown
    if any(place["span"] is None for place in (*inputs["cells"], *inputs["inlines"])):
        return None
    if [cell["key"] for cell in inputs["cells"]] != [cell.key for cell in source.cells]:
        return None
    cells = [markdown[slice(*cell["span"])] for cell in inputs["cells"]]
    says: dict[tuple[int, str], str] = {}
    others: list[tuple[tuple[int, str], str]] = []
    for inline in inputs["inlines"]:
        place = (inline["after"], inline["expression"])
        value = markdown[slice(*inline["span"])]
        if said(inline["expression"]):
            says[place] = value
        else:
            others.append((place, value))
    pieces, used, count = [], set(), 0
    left = iter(others)
    for piece in source.pieces:
        if isinstance(piece, Cell):
            pieces.append(PieceResult(markdown=cells[count]))
            count += 1
            continue
        values = []
        for inline in piece.inlines:
            place = (count, inline.expression)
            if said(inline.expression) is None:
                before, value = next(left, (None, ""))
                if before != place:
                    return None
                values.append(value)
            elif place in says:
                used.add(place)
                values.append(says[place])
            else:
                return None
        pieces.append(PieceResult(inlines=tuple(values)))
    if next(left, None) is not None:
        return None
    gone = {said(expression) for _, expression in set(says) - used}
    gone -= {said(expression) for _, expression in used}
    # Where a cell or a longer expression says numbers too, only an execution knows what is left.
    elsewhere = [cell.code for cell in source.cells] + [place[1] for place, _ in others]
    if gone and any("say(" in code for code in elsewhere):
        return None
    numbers = frozen.numbers | {"title": source.title}
    del numbers["format"], numbers["freeze"]
    numbers["said"] = sorted(set(numbers["said"]) - gone)
    unsaid = gone - {number["id"] for number in numbers["numbers"]}
    entries = {id: digest for id, digest in inputs["ledger"].items() if id not in unsaid}
    names = ("settings", "modules", "data", "ledger", "libraries", "python")
    kept = {name: inputs[name] for name in names if name in inputs} | {"ledger": entries}
    return assemble(source, tuple(pieces), frozen.figures, numbers, kept, frozen.html["result"])


def said(expression: str) -> str | None:
    """The id, if an expression is `say("id")` and nothing more."""
    if expression.startswith("say(") and expression.endswith(")"):
        id = expression[4:-1].strip()
        if len(id) > 2 and id[0] == id[-1] and id[0] in "'\"" and id[0] not in id[1:-1]:
            return id[1:-1]
    return None
