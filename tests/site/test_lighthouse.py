"""What Lighthouse says of the book's pages, on a phone and on a desktop.

A visit takes ten to twenty seconds, so a run judges two: the preface on the phone and the heaviest
chapter on the desktop. `EVERY_PAGE=1 make test ARGS=tests/site/test_lighthouse.py` judges all pages
on both.

The network and the processor of the phone are simulated from one visit that is timed here, so the
performance score moves with the load of this machine: by up to 20 of 100 while other work fills
its cores. Three visits are therefore made at most, and the best counts. The other three categories
and the layout shift do not depend on time; they must hold at every visit.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

from bookbuild.project import load_project

pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parents[2]
LEAST = 0.98
SHIFT = 0.02
VISITS = 3
CATEGORIES = ("accessibility", "best-practices", "seo")
HEAVIEST = "chapters/encoder-decoder.html"


def pages() -> list[str]:
    return [chapter.href for chapter in load_project(ROOT).chapters]


def sample() -> list[tuple[str, str]]:
    if os.environ.get("EVERY_PAGE"):
        return [(page, form) for form in ("phone", "desktop") for page in pages()]
    return [("index.html", "phone"), (HEAVIEST, "desktop")]


def visit(web_tools: Path, chromium: str, url: str, form: str, report: Path) -> dict:
    """One visit of Lighthouse: its whole report."""
    command = [
        "node", str(web_tools / "lighthouse" / "cli" / "index.js"), url, "--quiet",
        "--output=json", f"--output-path={report}", "--throttling-method=simulate",
        f"--only-categories={','.join(('performance', *CATEGORIES))}",
        "--chrome-flags=--headless=new --no-sandbox --disable-gpu",
        *(["--preset=desktop"] if form == "desktop" else []),
    ]  # fmt: skip
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "CHROME_PATH": chromium},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(report.read_text(encoding="utf-8"))


def failed(report: dict, category: str) -> list[str]:
    audits = report["audits"]
    return [
        f"{ref['id']}: {audits[ref['id']].get('displayValue', audits[ref['id']]['title'])}"
        for ref in report["categories"][category]["auditRefs"]
        if ref["weight"] and (audits[ref["id"]]["score"] or 0) < 1
    ]


@pytest.mark.parametrize(("page", "form"), sample())
def test_a_page_scores_98_of_100_or_more(page, form, web_tools, compressed, chromium, tmp_path):
    speeds = []
    for number in range(VISITS):
        report = visit(web_tools, chromium, compressed + page, form, tmp_path / f"{number}.json")
        assert report.get("runtimeError") is None
        for category in CATEGORIES:
            score = report["categories"][category]["score"]
            assert score >= LEAST, (category, score, failed(report, category))
        assert report["audits"]["cumulative-layout-shift"]["numericValue"] < SHIFT
        speeds.append((report["categories"]["performance"]["score"], failed(report, "performance")))
        if speeds[-1][0] >= LEAST:
            return
    pytest.fail(f"performance of {page} on the {form}: {speeds}")
