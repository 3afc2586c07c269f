"""Draw ARCHITECTURE.md from the code: what there is, who imports whom, what runs when.

Nothing is imported to find it: modules are parsed, chapters are read from their freeze. A test
compares the page with the code, so that it cannot fall behind; `make architecture` writes it anew.
"""

import ast
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

PAGE = "ARCHITECTURE.md"
CODE = "code"
PACKAGES = {
    "measured": "the subject: what the chapters compute with",
    "ledger": "what every number must be, and the check that it still is",
    "bookbuild": "executes, freezes, decides what is stale, renders, verifies",
}
HEAD = """\
# Architecture

Drawn from the code by `make architecture`; a test fails while this page is behind.

A number's way: a cell in `chapters/` computes it with `measured`, `ledger` compares it with
`ledger.toml`, and `bookbuild` freezes both result and inputs in `_freeze/`, from which Quarto or
`bookbuild` itself renders. What nothing changed is never executed; what drifted stops the build
before anything is replaced.

```text
chapters/positional-encoding.qmd     norm = check("pe-norm-d100", vector_norm(pe[34]))
  → ledger.toml                      value and tolerance; outside of it the build fails
  → _freeze/…/execute-results/       html.json (Quarto's own format), inputs.json (what it was
                                     computed from), numbers.json (every checked number)
  → _book/                           rendered by Quarto, or by bookbuild through pandoc
```
"""


def page(root: Path) -> str:
    """The text of the page."""
    modules = {package: dict(_modules(root, package)) for package in PACKAGES}
    parts = [HEAD, _graph(modules), _chapters(root)]
    parts += [_table(package, found) for package, found in modules.items()]
    return "\n".join([*parts, _workflows(root)])


def _modules(root: Path, package: str) -> Iterator[tuple[str, ast.Module]]:
    """Dotted name → syntax, of a package's modules; empty ones left out."""
    for path in sorted((root / CODE / package).rglob("*.py")):
        name = path.relative_to(root / CODE).with_suffix("").as_posix().replace("/", ".")
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if tree.body:
            yield name.removesuffix(".__init__"), tree


def imported(tree: ast.Module) -> set[str]:
    """Modules of ours that a module imports, at its top or when it is needed."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            below = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= below | {node.module}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name for name in found if name.partition(".")[0] in PACKAGES}


def _graph(modules: Mapping[str, Mapping[str, ast.Module]]) -> str:
    edges = {
        (package, name.partition(".")[0])
        for package, trees in modules.items()
        for tree in trees.values()
        for name in imported(tree)
    }
    lines = ["## Who imports whom", "", "```mermaid", "graph LR", "  chapters --> measured"]
    lines.append("  chapters --> ledger")
    lines += [f"  {one} --> {other}" for one, other in sorted(edges) if one != other]
    return "\n".join([*lines, "```", ""])


def _chapters(root: Path) -> str:
    lines = ["## What each chapter computes with", "", "| chapter | modules of `measured` |"]
    lines.append("|---|---|")
    for path in sorted(root.glob("_freeze/chapters/*/execute-results/inputs.json")):
        modules = json.loads(path.read_text(encoding="utf-8"))["modules"]
        used = [
            Path(module).stem
            for module in modules
            if module.startswith(f"{CODE}/measured/") and not module.endswith("__init__.py")
        ]
        lines.append(f"| {path.parents[1].name} | {', '.join(sorted(used))} |")
    return "\n".join([*lines, ""])


def _table(package: str, trees: Mapping[str, ast.Module]) -> str:
    known = set(trees)
    lines = [f"## `{package}`: {PACKAGES[package]}", "", "| module | what it does | imports |"]
    lines.append("|---|---|---|")
    for name, tree in trees.items():
        if name == package:
            continue
        own = {one for one in imported(tree) if one in known or one.partition(".")[0] != package}
        own = {one for one in own if not any(other.startswith(f"{one}.") for other in own)}
        short = sorted(one.removeprefix(f"{package}.") for one in own - {name, package})
        ours = [one for one in short if _is_module(one, package, known)]
        title = name.removeprefix(f"{package}.")
        lines.append(f"| {title} | {_first_sentence(tree)} | {', '.join(ours)} |")
    return "\n".join([*lines, ""])


def _is_module(name: str, package: str, known: set[str]) -> bool:
    """Whether an imported name is a module: of another package, its name is lower-case."""
    return f"{package}.{name}" in known or (name.count(".") == 1 and name.islower())


def _first_sentence(tree: ast.Module) -> str:
    text = " ".join((ast.get_docstring(tree) or "").partition("\n\n")[0].split())
    return re.split(r"(?<=[.?!:]) (?=[A-Z])", text)[0].rstrip(".:").replace("|", "\\|")


def _workflows(root: Path) -> str:
    lines = ["## Workflows", "", "| workflow | what it is for |", "|---|---|"]
    for path in sorted(root.glob(".github/workflows/*.yml")):
        comment = re.match(r"(?:# .*\n)+", path.read_text(encoding="utf-8"))
        text = " ".join(line.removeprefix("# ") for line in comment[0].splitlines())
        lines.append(f"| {path.stem} | {text} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    (Path.cwd() / PAGE).write_text(page(Path.cwd()), encoding="utf-8")
    sys.stdout.write(f"{PAGE}\n")
