"""Who may import whom; what is imported to decide that nothing is stale."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

CODE = Path(__file__).resolve().parents[1] / "code"
OURS = {"bookbuild", "ledger", "measured"}
ALLOWED = {"ledger": {"ledger"}, "bookbuild": {"bookbuild", "ledger"}, "measured": {"measured"}}
HEAVY = {"tensorflow", "keras"}
FILES = sorted(CODE.rglob("*.py"))
IN_KERNELS = {"bookbuild/backend_draws.py"}  # runs beside chapters, and nowhere else


def imported(path: Path) -> set[str]:
    """Top-level packages that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(CODE).as_posix())
def test_a_module_imports_only_whom_its_package_may(path):
    package = path.relative_to(CODE).parts[0]
    assert imported(path) & OURS <= ALLOWED[package]
    if package != "measured" and path.relative_to(CODE).as_posix() not in IN_KERNELS:
        assert not imported(path) & HEAVY


def test_there_are_modules_of_all_three_packages():
    assert {path.relative_to(CODE).parts[0] for path in FILES} == OURS


@pytest.mark.parametrize(
    ("modules", "absent"),
    [
        ("ledger", {*HEAVY, "numpy", "yaml", "matplotlib", "IPython"}),
        ("bookbuild", {*HEAVY, "numpy", "nbclient", "jinja2"}),
        (
            "bookbuild.cli, bookbuild.build, bookbuild.stale, bookbuild.accept",
            {*HEAVY, "numpy", "nbclient", "nbformat", "jupyter_client", "zmq", "jinja2", "IPython"},
        ),
        ("bookbuild.verify, bookbuild.serve", {*HEAVY, "numpy", "nbclient", "jinja2"}),
        ("bookbuild.execute", {*HEAVY, "numpy", "matplotlib"}),
    ],
)
def test_importing_pulls_in_nothing_heavy(modules, absent):
    script = f"import sys\nimport {modules}\nprint(*sys.modules)"
    process = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=CODE
    )
    found = {name.partition(".")[0] for name in process.stdout.split()}
    assert modules.partition(".")[0] in found
    assert not found & absent
