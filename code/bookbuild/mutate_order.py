"""In which order a chapter's cells are tried: the quick ones first, without any reading another's.

A fault is mostly found by the first few cells that it reaches, so cells that take seconds wait,
with those that need what they compute. Whoever moves cells has to run the new order once without
any fault: names tell what a cell needs, except for state that hides in objects and seeds.
"""

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bookbuild.source import Cell

SLOW = 2.0  # seconds from which on a cell waits
# Methods by which a list, a set or a dictionary becomes another; as statements of their own, for
# `np.sort(a)` and the like change nothing.
CHANGING = {"append", "extend", "insert", "pop", "remove", "add", "update", "setdefault", "sort"}


@dataclass(frozen=True)
class Order:
    """Labels: of the cells that run at once, and of those that wait, in the order to run them."""

    quick: tuple[str, ...]
    waiting: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        return self.quick + self.waiting


def as_written(cells: Sequence[Cell]) -> Order:
    return Order(tuple(cell.label for cell in cells))


def order_of(cells: Sequence[Cell], seconds: Mapping[str, float], slow: float = SLOW) -> Order:
    """Slow cells and all that hang together with them after the others, cheap groups first."""
    names = _with_calls([names_of(cell.code) for cell in cells])
    needs = _needs(names)
    waiting = {i for i, cell in enumerate(cells) if seconds.get(cell.label, 0) >= slow}
    while more := _must_wait(names, needs, waiting):
        waiting |= more
    costs = _costs(cells, needs, seconds, slow)
    early = [i for i in range(len(cells)) if i not in waiting]
    late, left = [], sorted(waiting)
    while left:
        # The cheapest that may come next; the first as written always may.
        for i in sorted(left, key=lambda i: (costs[i], i)):
            rest = [j for j in left if j != i]
            if _needs(names, [*early, *late, i, *rest]) == needs:
                break
        late, left = [*late, i], rest
    labels = [cell.label for cell in cells]
    return Order(tuple(labels[i] for i in early), tuple(labels[i] for i in late))


def _with_calls(cells: Sequence["Names"]) -> list[tuple[set[str], set[str]]]:
    """Reads and writes of each cell; who reads a function reads what it does, at that time."""
    known: dict[str, set[str]] = {}
    found = []
    for cell in cells:
        reads, new = set(), set(cell.reads)
        while new:
            reads |= new
            new = set().union(*(known.get(name, set()) for name in new)) - reads
        known = {name: of for name, of in known.items() if name not in cell.writes}
        known |= cell.functions
        found.append((reads, cell.writes))
    return found


def _must_wait(
    names: Sequence[tuple[set[str], set[str]]], needs: Mapping[int, Mapping[str, int]], waiting: set
) -> set[int]:
    """Cells that cannot go before the waiting ones: they need them, or would overwrite for them."""
    early = [i for i in range(len(names)) if i not in waiting]
    order = [*early, *sorted(waiting)]
    moved = _needs(names, order)
    more = set()
    for reader in order:
        for name, writer in needs[reader].items():
            if moved[reader].get(name) != writer:
                # Either the writer waits and the reader does not, or another one writes in between.
                more.add(reader if reader not in waiting else moved[reader][name])
    return more - waiting


def _needs(
    names: Sequence[tuple[set[str], set[str]]], order: Iterable[int] | None = None
) -> dict[int, dict[str, int]]:
    """For each cell, from which cell each name that it reads comes (-1: from none)."""
    written: dict[str, int] = {}
    found = {}
    for i in range(len(names)) if order is None else order:
        reads, writes = names[i]
        found[i] = {name: written.get(name, -1) for name in reads}
        written |= dict.fromkeys(writes, i)
    known = set(written)
    return {i: {n: w for n, w in of.items() if n in known} for i, of in sorted(found.items())}


def _costs(
    cells: Sequence[Cell],
    needs: Mapping[int, Mapping[str, int]],
    seconds: Mapping[str, float],
    slow: float,
) -> list[float]:
    """Seconds of the slow cells that each cell needs, itself included."""
    behind: list[set[int]] = []
    for i, cell in enumerate(cells):
        own = {i} if seconds.get(cell.label, 0) >= slow else set()
        behind.append(own.union(*(behind[w] for w in needs[i].values() if 0 <= w < i)))
    return [sum(seconds[cells[i].label] for i in slow_ones) for slow_ones in behind]


@dataclass(frozen=True)
class Names:
    """What a cell takes from the cells before it, what it leaves to those after, and what each
    function that it defines will read when it is called."""

    reads: set[str]
    writes: set[str]
    functions: Mapping[str, set[str]]


def names_of(code: str) -> Names:
    reads: set[str] = set()
    writes: set[str] = set()
    functions = {}
    for statement in ast.parse(code).body:
        _visit(statement, reads, writes)
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            functions[statement.name] = set()
            _visit(statement, functions[statement.name], set())
    return Names(reads, writes, functions)


def _visit(node: ast.AST, reads: set[str], writes: set[str]) -> None:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        inner_reads, inner_writes = set(), {node.name}
        if isinstance(node, ast.FunctionDef):
            inner_writes |= _parameters(node.args)
            inner_writes |= {  # a function's own names are its own wherever they are bound
                n.id for n in ast.walk(node) if isinstance(n, ast.Name) and _binds(n)
            }
        for child in ast.iter_child_nodes(node):
            _visit(child, inner_reads, inner_writes)
        reads |= inner_reads - writes
        writes.add(node.name)
    elif isinstance(node, ast.Lambda):
        inner = _parameters(node.args)
        _visit(node.body, reads, writes | inner)
    elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
        inner = set(writes)
        for generator in node.generators:
            _visit(generator.iter, reads, inner)
            _visit(generator.target, reads, inner)
            for condition in generator.ifs:
                _visit(condition, reads, inner)
        for part in ("key", "value", "elt"):
            if hasattr(node, part):
                _visit(getattr(node, part), reads, inner)
    elif isinstance(node, ast.Name):
        if _binds(node):
            writes.add(node.id)
        elif node.id not in writes:
            reads.add(node.id)
    elif changed := _changed(node):  # it is needed as it was, and is another afterwards
        _visit_parts(node, reads, writes)
        writes.add(changed)
    elif isinstance(node, ast.Import | ast.ImportFrom):
        writes |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    elif isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr):
        if node.value is not None:
            _visit(node.value, reads, writes)
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            _visit(target, reads, writes)
    elif isinstance(node, ast.AugAssign):
        _visit(node.value, reads, writes)
        if isinstance(node.target, ast.Name) and node.target.id not in writes:
            reads.add(node.target.id)
        _visit(node.target, reads, writes)
    elif isinstance(node, ast.For):
        for part in (node.iter, node.target, *node.body, *node.orelse):
            _visit(part, reads, writes)
    elif isinstance(node, ast.ExceptHandler):
        if node.name:
            writes = {*writes, node.name}
        _visit_parts(node, reads, writes)
    else:
        _visit_parts(node, reads, writes)


def _visit_parts(node: ast.AST, reads: set[str], writes: set[str]) -> None:
    for child in ast.iter_child_nodes(node):
        _visit(child, reads, writes)


def _changed(node: ast.AST) -> str:
    """The name of what a node changes in place: `a[0] = …`, `a.b = …`, `a.append(…)`."""
    if isinstance(node, ast.Subscript | ast.Attribute):
        return "" if isinstance(node.ctx, ast.Load) else _base(node)
    call = node.value if isinstance(node, ast.Expr) else None
    if isinstance(call, ast.Call) and getattr(call.func, "attr", "") in CHANGING:
        return _base(call.func)
    return ""


def _base(node: ast.AST) -> str:
    """The name that `a[0].b["c"]` begins with, or "" where there is none."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _binds(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store | ast.Del)


def _parameters(args: ast.arguments) -> set[str]:
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
    return {arg.arg for arg in every if arg is not None}
