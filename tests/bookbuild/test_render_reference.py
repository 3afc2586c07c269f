"""The reference project states what Quarto states of it, and is the same wherever it is made."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bookbuild.project import load_project
from bookbuild.render import render_site

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS))
from site_facts import differences  # noqa: E402
from site_facts import site_facts as all_facts  # noqa: E402

REFERENCE = TESTS / "quarto-reference"
EXPECTED = REFERENCE / "expected"


def render(root, output, cache, jobs=2, change=None):
    """Render the project in `root` from Quarto's own freeze; `change`: path -> other Markdown."""
    project = load_project(root)
    markdown, figures = {}, {}
    for chapter in project.chapters:
        frozen = EXPECTED / "_freeze" / chapter.path.removesuffix(".qmd")
        markdown[chapter.path] = project.source(chapter)
        if frozen.is_dir():
            html = json.loads((frozen / "execute-results/html.json").read_text(encoding="utf-8"))
            markdown[chapter.path] = html["result"]["markdown"]
            figures[chapter.path] = frozen / "figure-html"
    output.mkdir()
    return render_site(project, output, markdown | (change or {}), figures, cache, jobs)


def files(folder):
    return {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()
    }


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reference")
    report = render(REFERENCE / "project", folder / "site", folder / "cache")
    assert len(report.rendered) == 4
    return folder


def site_facts(folder):
    """What the site's pages state, without the page for missing ones, which Quarto has not."""
    return {page: facts for page, facts in all_facts(folder).items() if page != "404.html"}


def test_the_pages_state_what_quarto_states(site):
    facts = json.loads((EXPECTED / "facts.json").read_text(encoding="utf-8"))
    ours = site_facts(site / "site")
    assert list(differences(ours, facts)) == []
    assert ours == facts


def test_the_comparison_would_find_one_wrong_number(site, tmp_path):
    shutil.copytree(site / "site", tmp_path / "site")
    page = tmp_path / "site/chapters/references.html"
    text = page.read_text(encoding="utf-8")
    assert "Figure\u00a02.2 (b)" in text or "Figure\u00a02.2\u00a0(b)" in text
    page.write_text(text.replace("2.2\u00a0(b)", "2.2\u00a0(a)"), encoding="utf-8")
    facts = json.loads((EXPECTED / "facts.json").read_text(encoding="utf-8"))
    assert len(list(differences(site_facts(tmp_path / "site"), facts))) == 1


def test_figures_and_images_lie_where_the_pages_name_them(site):
    made = files(site / "site")
    frozen = EXPECTED / "_freeze/chapters/references/figure-html"
    for figure in frozen.iterdir():
        picture = made[f"chapters/references_files/figure-html/{figure.name}"]
        # Drawn as Quarto drew it; the site's copy has a sheet with the colours of both themes.
        assert re.sub(rb"\n<style>[^<]*</style>", b"", picture, count=1) == figure.read_bytes()
    assert made["media/dot.svg"] == (REFERENCE / "project/media/dot.svg").read_bytes()
    assert "media/site/site.css" in made


def test_the_same_bytes_from_another_folder_hash_seed_and_number_of_jobs(site, tmp_path):
    shutil.copytree(REFERENCE / "project", tmp_path / "elsewhere" / "book")
    script = (
        "import sys; from pathlib import Path; import test_render_reference as t; "
        "t.render(*map(Path, sys.argv[1:4]), jobs=1)"
    )
    arguments = [tmp_path / "elsewhere/book", tmp_path / "site", tmp_path / "cache"]
    code = Path(__file__).parents[2] / "code"
    environment = {
        **os.environ,
        "PYTHONHASHSEED": "7",
        "PYTHONPATH": os.pathsep.join(map(str, [code, Path(__file__).parent])),
        "TZ": "Asia/Tokyo",
    }
    subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)], check=True, env=environment
    )
    ours, theirs = files(site / "site"), files(tmp_path / "site")
    assert len(ours) > 20
    assert ours == theirs


def test_no_page_names_a_folder_of_this_machine(site):
    for name, content in files(site / "site").items():
        if name.endswith(".html"):
            assert str(REFERENCE).encode() not in content
            assert str(site).encode() not in content


def test_an_unchanged_page_is_not_rendered_again(site, tmp_path):
    shutil.copytree(site / "cache", tmp_path / "cache")
    report = render(REFERENCE / "project", tmp_path / "again", tmp_path / "cache")
    assert report.rendered == ()
    assert len(report.cached) == 4
    assert files(tmp_path / "again") == files(site / "site")


def test_only_a_changed_page_is_rendered_again(site, tmp_path):
    shutil.copytree(site / "cache", tmp_path / "cache")
    appendix = "# Another appendix {#sec-appendix}\n\nSee @sec-cells.\n"
    change = {"chapters/appendix.qmd": appendix}
    report = render(REFERENCE / "project", tmp_path / "site", tmp_path / "cache", change=change)
    assert report.rendered == ("chapters/appendix.qmd",)
    # The sidebar of the others has the new title all the same.
    assert b"Another appendix" in (tmp_path / "site/chapters/cells.html").read_bytes()


DAMAGES = {
    "emptied": lambda whole: "",
    "cut short": lambda whole: whole[: len(whole) // 2],
    "edited": lambda whole: whole.replace('"body": "', '"body": "x', 1),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_cache_is_ignored_and_mended(site, tmp_path, damage):
    shutil.copytree(site / "cache", tmp_path / "cache")
    entries = sorted((tmp_path / "cache").iterdir())
    assert len(entries) == 4
    whole = entries[0].read_text(encoding="utf-8")
    damaged = DAMAGES[damage](whole)
    assert damaged != whole
    entries[0].write_text(damaged, encoding="utf-8")
    report = render(REFERENCE / "project", tmp_path / "site", tmp_path / "cache")
    assert len(report.rendered) == 1
    assert files(tmp_path / "site") == files(site / "site")
    assert entries[0].read_text(encoding="utf-8") == whole
