"""Pages run nothing of their own: styles become classes, code is refused, data is never run."""

import ast
import base64
import hashlib
import json
import re
from pathlib import Path

import pytest
from bs4 import BeautifulSoup

from bookbuild.build import build, plan
from bookbuild.policy import policy_for, unsafe_in, unsafe_in_markdown, without_styles
from bookbuild.problems import BookError
from bookbuild.project import load_project
from bookbuild.render_pages import with_policy
from ledger.entries import LedgerError, load_ledger

ROOT = Path(__file__).resolve().parents[2]
RUNS = {"eval", "exec", "compile", "__import__", "input", "breakpoint"}
UNSAFE = {"pickle", "marshal", "shelve", "dill", "joblib", "cloudpickle", "runpy", "code"}


# ---- The policy of a page ----


def test_a_policy_allows_the_site_itself_and_nothing_else():
    directives = dict(one.split(" ", 1) for one in policy_for().split("; "))
    assert directives["default-src"] == directives["base-uri"] == "'none'"
    assert directives["form-action"] == "'none'"
    for name in ("script-src", "style-src", "font-src"):
        assert directives[name] == "'self' file:"
    for word in ("unsafe", "http", "*", "blob", "eval", "nonce"):
        assert word not in policy_for(".a { color: red }")


def test_a_style_sheet_of_a_page_is_allowed_by_its_hash_alone():
    html = with_policy('<head><!--policy--></head><p style="color: red">x</p>')
    soup = BeautifulSoup(html, "lxml")
    sheet = soup.style.string
    digest = base64.b64encode(hashlib.sha256(sheet.encode()).digest()).decode()
    policy = soup.select_one('meta[http-equiv="Content-Security-Policy"]')["content"]
    assert re.findall(r"'sha256-([^']+)'", policy) == [digest]
    assert sheet == ".styled-1.styled-1.styled-1 { color: red }"


def test_a_page_without_styles_has_no_sheet_and_no_hash():
    html = with_policy("<head><!--policy--></head><p>x</p>")
    assert "<style" not in html and "sha256" not in html


@pytest.mark.parametrize(
    "html, changed, sheet",
    [
        ('<td style="text-align: right;">1</td>', '<td class="align-right">1</td>', ""),
        (
            '<td class="a" style="text-align: left;">1</td>',
            '<td class="align-left a">1</td>',
            "",
        ),
        (
            '<col style="width: 15%" /><col style="width: 15%" /><col style="width: 9%" />',
            '<col class="styled-1" /><col class="styled-1" /><col class="styled-2" />',
            "15% 9%",
        ),
        (
            "<img alt='a > b style=\"x\"' style='height: 3em'>",
            '<img class="styled-1" alt=\'a > b style="x"\'>',
            "3em",
        ),
        ('<p title="style=&quot;x&quot;">style="y"</p>',) * 2 + ("",),
        ("a < b style='x' and 3 > 2",) * 2 + ("",),
    ],
)
def test_styles_of_tags_and_only_these_become_classes(html, changed, sheet):
    got, rules = without_styles(html)
    assert got == changed
    assert re.findall(r"[\d]+(?:%|em)", rules) == sheet.split()


def test_every_attribute_but_style_and_class_stays_as_it_was():
    html = '<div id="x" data-a="1" style="display: grid; gap: 1rem;" class="y z"><p>t</p></div>'
    before, after = (BeautifulSoup(text, "lxml").div for text in (html, without_styles(html)[0]))
    del before["style"]
    before["class"] = ["styled-1", "y", "z"]
    assert after.attrs == before.attrs
    assert after.p == before.p


# ---- What a page may not hold ----


@pytest.mark.parametrize(
    "html, said",
    [
        ("<script>alert(1)</script>", "<script>"),
        ("<ScRiPt src=x>", "<script>"),
        ("<style>p {}</style>", "<style>"),
        ("<iframe src='x'></iframe>", "<iframe>"),
        ("<object data=x></object>", "<object>"),
        ("<embed src=x>", "<embed>"),
        ("<base href='//x'>", "<base>"),
        ("<meta http-equiv=refresh content=0>", "<meta>"),
        ("<link rel=stylesheet href=x>", "<link>"),
        ("<form action=x></form>", "<form>"),
        ("<b onclick='x()'>", "onclick"),
        ("<img src=x OnError=alert(1)>", "onerror"),
        ("<svg onload=x>", "onload"),
        ("<a href='javascript:x'>", "javascript:x"),
        ("<a href=' \tJaVaScRiPt:x'>", "JaVaScRiPt"),
        ("<a href='java&#115;cript:x'>", "javascript:x"),
        ("<a href='data:text/html,<b>'>", "data:text/html"),
        ("<svg><a xlink:href='vbscript:x'>", "vbscript:x"),
    ],
)
def test_code_in_a_page_is_found_with_its_line(html, said):
    ((line, text),) = list(unsafe_in(f"<p>one</p>\n{html}\n"))
    assert line == 2 and said in text
    ((line, text),) = list(unsafe_in_markdown(f"one $a<b$\n\n{html}\n"))
    assert line == 3 and said in text


@pytest.mark.parametrize(
    "markdown",
    [
        "```\n<script>x</script>\n```",
        "`<script>` and ``javascript:`` and `<b onclick=x>`",
        "Say <b>so</b>, 1 < 2 and $x<y onto$, onclick=x, javascript: x",
        "[a](https://x.org/javascript:y)",
        "<img src='data:image/png;base64,AA' alt=''>",
    ],
)
def test_what_only_speaks_of_code_is_left_alone(markdown):
    assert list(unsafe_in_markdown(markdown)) == []


@pytest.mark.parametrize(
    "markdown, said",
    [
        ("`<b onclick=x>`{=html}", "onclick"),
        ("```{=html}\n<script>x</script>\n```", "<script>"),
        ("[a](javascript:x)", "javascript:x"),
        ("[a](<javascript:x>)", "javascript:x"),
        ("[a]\n\n[a]: javascript:x", "javascript:x"),
    ],
)
def test_markdown_has_ways_of_its_own_to_code(markdown, said):
    assert any(said in text for _, text in unsafe_in_markdown(markdown))


# ---- In a build ----

SHOWS = """---
title: "Shows"
---

```{{python}}
#| label: show
from IPython.display import Markdown
{code}
```
"""


@pytest.mark.parametrize(
    "code, said, line",
    [
        ("Markdown('`<img src=x onerror=alert(1)>`{=html}')", "a handler, onerror", 0),
        ("Markdown('[x](javascript:alert(1))')", "javascript:alert(1", 0),
        ("Markdown('''\n`<script>x()</script>`{=html}\n''')", "holds <script>", 9),
    ],
)
def test_an_output_that_runs_code_turns_the_build_red(tmp_path, books, code, said, line):
    root = books.write(tmp_path, {"index.qmd": SHOWS.format(code=code)}, None, {})
    with pytest.raises(BookError, match=rf"^index\.qmd:{line}?:? ?.*{re.escape(said)}"):
        build(load_project(root), jobs=1, render=False)
    assert not (root / "_freeze").exists()


@pytest.mark.parametrize("text", ["`<b onclick='x()'>b</b>`{=html}", "[b](javascript:alert)"])
def test_a_page_whose_own_text_runs_code_turns_the_build_red(tmp_path, books, text):
    root = books.write(tmp_path, {"index.qmd": f"# Title\n\nFirst.\n\n{text}\n"}, None, {})
    with pytest.raises(BookError, match=r"^index\.qmd:5: holds a.*a page runs nothing of its own"):
        build(load_project(root), jobs=1)
    assert not (root / "_book").exists()


def test_the_page_of_a_build_has_its_policy_first_and_no_inline_code(tmp_path, books):
    root = books.write(tmp_path, {"index.qmd": "# Title\n\n| a |\n|--:|\n| 1 |\n"}, None, {})
    build(load_project(root), jobs=1)
    html = (root / "_book/index.html").read_text(encoding="utf-8")
    soup = BeautifulSoup(html, "lxml")
    head = list(soup.head.find_all(True))
    assert head[0].get("charset") == "utf-8"
    assert head[1]["http-equiv"] == "Content-Security-Policy"
    assert all(script.get("src") and not script.string for script in soup.find_all("script"))
    assert not [tag for tag in soup.find_all(True) if "style" in tag.attrs]
    assert not [tag for tag in soup.find_all(True) if any(a.startswith("on") for a in tag.attrs)]
    assert soup.td["class"] == ["align-right"]


# ---- Ledger and freeze are data ----


@pytest.mark.parametrize("package", ["bookbuild", "ledger"])
def test_nothing_of_the_build_evaluates_what_it_reads(package):
    """But for the mutation test's child, whose task is to run changed code."""
    files = sorted((ROOT / "code" / package).rglob("*.py"))
    assert len(files) >= 5
    found = []
    for path in files:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = ""
            if isinstance(node, ast.Call):
                name = getattr(node.func, "id", "")
                if name in RUNS:
                    found.append(f"{path.name}:{node.lineno}: {name}()")
                target = getattr(node.func, "attr", "")
                if target in ("load", "unsafe_load") and "yaml" in ast.unparse(node.func):
                    loader = ast.unparse(node)
                    if "SafeLoader" not in loader:
                        found.append(f"{path.name}:{node.lineno}: {loader}")
                if any(k.arg == "shell" and ast.unparse(k.value) != "False" for k in node.keywords):
                    found.append(f"{path.name}:{node.lineno}: a shell")
            names = [alias.name for alias in getattr(node, "names", ())
                     if isinstance(node, ast.Import | ast.ImportFrom)]  # fmt: skip
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found += [f"{path.name}: {one}" for one in names if one.split(".")[0] in UNSAFE]
    allowed = [one for one in found if one.startswith("mutate_child.py")]
    assert sorted(set(found) - set(allowed)) == []


class Trap:
    """Leaves a file behind when it is evaluated."""

    def __init__(self, folder: Path):
        self.file = folder / "sprung"

    @property
    def code(self) -> str:
        return f"__import__('pathlib').Path({str(self.file)!r}).write_text('x')"


def test_a_trap_would_spring(tmp_path):
    trap = Trap(tmp_path)
    __builtins__["eval"](trap.code)
    assert trap.file.exists()


@pytest.mark.parametrize("field", ["value", "format", "statement", "unit", "reason", "source"])
def test_a_ledger_with_code_in_it_runs_nothing(tmp_path, field):
    trap = Trap(tmp_path)
    fields = {"statement": "s", "value": 1, "tolerance": 0, "reason": "r", "source": "s"}
    for code in (trap.code, "{" + trap.code + "}", "{0.__class__.__init__}"):
        entry = fields | {field: code}
        text = "[a]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in entry.items())
        (tmp_path / "ledger.toml").write_text(text)
        try:
            ledger = load_ledger(tmp_path / "ledger.toml")
            assert getattr(ledger["a"], field) == code
        except LedgerError as error:
            assert field in str(error)
    assert not trap.file.exists()


@pytest.mark.parametrize("name", ["html", "inputs", "numbers"])
def test_a_freeze_with_code_in_it_runs_nothing_and_is_not_trusted(executed, tmp_path, name):
    trap = Trap(tmp_path)
    path = executed / f"_freeze/chapters/one/execute-results/{name}.json"
    good = path.read_bytes()
    for content in (
        trap.code.encode(),
        b"\x80\x04cbuiltins\neval\n(V" + trap.code.encode() + b"\ntR.",
        b"!!python/object/apply:builtins.eval ['" + trap.code.encode() + b"']",
        good.replace(b'"format": 1', b'"format": ' + json.dumps(trap.code).encode())
        if name != "html"
        else good.replace(b"jupyter", b"__import__('os')"),
    ):
        path.write_bytes(content)
        (verdict,) = [
            v for v in plan(load_project(executed)).verdicts if v.source.path == "chapters/one.qmd"
        ]
        assert verdict.state == "stale"
    assert not trap.file.exists()
