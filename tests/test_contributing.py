"""What the next owner finds: licences, notices, citation, container, hooks, each of them true."""

import fnmatch
import json
import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
MEDIA = ROOT / "media"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
HOLDER = "The Measured Transformer contributors"
# Files whose kind says that somebody else may have made them: fonts, minified or compiled code.
FOREIGN_KINDS = (".woff2", ".woff", ".ttf", ".otf", ".min.js", ".min.css", ".min.mjs", ".wasm")
FOREIGN_FOLDERS = {"vendor"}
SOMEBODY = re.compile(r"(?:copyright|©|\(c\)|@license|SPDX-License)[^\n]{0,80}", re.IGNORECASE)


def rows(path: Path) -> list[list[str]]:
    """The cells of a Markdown file's tables, without their heads."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line[:1] == "|"]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [row for row in cells if row[0].startswith("`")]


def listed() -> dict[str, list[str]]:
    """Pattern, relative to media/, → its row, of both lists."""
    found = {
        name: row for row in rows(MEDIA / "NOTICE.md") for name in re.findall(r"`([^`]+)`", row[0])
    }
    for row in rows(MEDIA / "data/README.md"):
        found.setdefault(f"data/{row[0].strip('`')}", row)
    return found


def matches(path: str, pattern: str) -> bool:
    return path.startswith(pattern) if pattern.endswith("/") else fnmatch.fnmatchcase(path, pattern)


def media_files() -> list[str]:
    return sorted(p.relative_to(MEDIA).as_posix() for p in MEDIA.rglob("*") if p.is_file())


def foreign() -> list[str]:
    return [
        path
        for path in media_files()
        if (path.endswith(FOREIGN_KINDS) or FOREIGN_FOLDERS & set(Path(path).parts))
        and "licen" not in path.lower()
        and not path.endswith("OFL.txt")
    ]


def test_every_third_party_file_is_in_the_notices():
    assert len(foreign()) > 15
    missing = [f for f in foreign() if not any(matches(f, pattern) for pattern in listed())]
    assert missing == []


def test_every_data_file_says_where_it_comes_from_and_its_licence():
    data = [f for f in media_files() if f.startswith("data/") and "LICENSE" not in f]
    data.remove("data/README.md")
    generated = {f for f in data if (ROOT / "media" / f).suffix == ".json"}
    told = listed()
    for path in data:
        if path in generated and not any(matches(path, pattern) for pattern in told):
            # Measured by the book's own commands, which write it: no licence but the book's.
            text = (ROOT / "media" / path).read_text(encoding="utf-8")
            assert not SOMEBODY.search(text), path
            continue
        row = next(row for pattern, row in told.items() if matches(path, pattern))
        assert re.search(r"MIT|CC BY|PDDL|public domain", row[-1] + row[-2]), path


def test_no_file_names_an_owner_that_the_notices_do_not_know():
    found = []
    for path in media_files():
        if any(matches(path, pattern) for pattern in listed()) or path.endswith((".md", "OFL.txt")):
            continue
        if path.endswith(FOREIGN_KINDS) or "licen" in path.lower():
            continue
        owner = SOMEBODY.search((MEDIA / path).read_text(encoding="utf-8", errors="replace"))
        if owner and HOLDER not in owner.group():
            found.append(f"{path}: {owner.group()}")
    assert found == []


@pytest.mark.parametrize("row", rows(MEDIA / "NOTICE.md"), ids=lambda row: row[0])
def test_a_notice_is_of_files_that_exist_with_their_version_and_licence(row):
    for pattern in re.findall(r"`([^`]+)`", row[0]):
        assert any(matches(path, pattern) for path in media_files()), pattern
    assert re.search(r"\d", row[2]), "no version"
    texts = re.findall(r"`([^`]+)`", row[3])
    assert texts, "names no licence file"
    for text in texts:
        assert (MEDIA / text).stat().st_size > 500, text


def test_code_is_under_mit_alone_and_text_under_cc_by_in_full():
    code = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert code.startswith(f"MIT License\n\nCopyright (c) 2026 {HOLDER}\n\nPermission is hereby")
    assert "Creative Commons" not in code and code.rstrip().endswith("IN THE SOFTWARE.")
    text = (ROOT / "LICENSE-text").read_text(encoding="utf-8")
    assert HOLDER in text and "https://creativecommons.org/licenses/by/4.0/" in text
    for section in range(1, 9):
        assert f"\nSection {section} – " in text, section
    assert PROJECT["license"] == "MIT AND CC-BY-4.0"


def test_the_citation_names_this_version():
    found = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert found["cff-version"] == "1.2.0"
    assert {"message", "title", "authors", "version", "license"} <= set(found)
    assert found["version"] == found["preferred-citation"]["version"] == PROJECT["version"]
    assert found["license"] == PROJECT["license"].split(" AND ")
    assert [author["name"] for author in found["authors"]] == [HOLDER]
    book = yaml.safe_load((ROOT / "_quarto.yml").read_text(encoding="utf-8"))["book"]
    assert found["preferred-citation"]["title"] == f"{book['title']}: {book['subtitle']}"


def test_the_changelog_begins_with_this_version():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(
        r"^## (\d+\.\d+\.\d+)(?: \((?:unreleased|\d{4}-\d\d-\d\d)\))$", text, re.M
    )
    assert versions and versions[0] == PROJECT["version"]
    assert versions == sorted(versions, key=lambda one: [*map(int, one.split("."))], reverse=True)


@pytest.mark.parametrize(
    "name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "media/NOTICE.md"]
)
def test_links_between_files_lead_somewhere(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    text = re.sub(r"^(`{3,}).*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert (ROOT / name).parent.joinpath(target).exists(), target


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_commands_that_a_page_names_exist(name):
    from bookbuild.cli import main

    text = (ROOT / name).read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    assert (made := set(re.findall(r"\bmake (?:PYTHON=\S+ )?([a-z][a-z-]+)", text)) - {"and"})
    assert made - targets == set()
    verbs = set(re.findall(r"(?:^|`|bin/)book ([a-z][a-z-]+)", text, re.MULTILINE))
    assert verbs - set(main.commands) == set()


def test_the_readme_leads_to_the_rest():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in ("CONTRIBUTING.md", "CHANGELOG.md", "CITATION.cff", "LICENSE", "LICENSE-text"):
        assert f"]({name})" in text


def test_the_container_has_what_building_and_testing_need():
    folder = ROOT / ".devcontainer"
    found = json.loads((folder / "devcontainer.json").read_text(encoding="utf-8"))
    docker = (folder / found["build"]["dockerfile"]).read_text(encoding="utf-8")
    frozen = {
        json.loads(path.read_text(encoding="utf-8"))["python"]
        for path in ROOT.glob("_freeze/chapters/*/execute-results/inputs.json")
    }
    assert {re.search(r"^FROM python:(\d+\.\d+)-", docker, re.MULTILINE)[1]} == frozen
    run = (ROOT / ".ci/run").read_text(encoding="utf-8")
    needed = set(" ".join(re.findall(r"missing\+=\(([^)]*)\)", run)).split())
    assert {"chromium", "fonts-dejavu-core"} <= needed
    installed = set(re.findall(r"[a-z0-9-]+", docker))
    assert needed <= installed
    assert {"git", "make"} <= installed
    assert found["postCreateCommand"] == "make site"
    assert f"USER {found['remoteUser']}" in docker


HOOKS = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]


def test_the_hooks_fetch_nothing():
    assert [repo["repo"] for repo in HOOKS] == ["local"]
    assert {hook["language"] for hook in HOOKS[0]["hooks"]} == {"system"}


@pytest.mark.parametrize("hook", HOOKS[0]["hooks"], ids=lambda hook: hook["id"])
def test_a_hook_passes_on_what_is_here(hook, executable):
    """On files as pre-commit would hand them over: all that match, where it hands over any."""
    names = []
    if hook.get("pass_filenames", True):
        every = ["code/ledger/entries.py", ".github/workflows/verify.yml"]
        names = [n for n in every if re.search(hook.get("files", r"\.py$"), n)]
        assert names
    program, *options = shlex.split(hook["entry"])
    done = subprocess.run(
        [executable(program), *options, *names],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    # Whether the freeze is fresh is no matter of the hook's, but of who has just edited.
    well = (0, 1) if hook["id"] == "freeze" else (0,)
    assert done.returncode in well and not done.stderr, done.stdout + done.stderr


@pytest.fixture
def executable():
    """The program that a hook names in .venv, also where the tests run from another environment."""
    import sys

    def find(program: str) -> str:
        assert program.startswith(".venv/bin/")
        return str(Path(sys.executable).with_name(Path(program).name))

    return find
