"""The workflows: what checkers say of them, what they may do, that their steps are our scripts."""

import json
import os
import re
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
# The one step that pushes.
PUSH = ".ci/push-notebooks.sh site/notebooks"
TOOLS = Path(sys.executable).parent


def read(path):
    """A workflow; YAML takes its key `on` for a truth."""
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {("on" if key is True else key): value for key, value in found.items()}


PARSED = {path.stem: read(path) for path in WORKFLOWS}
JOBS = [
    pytest.param(workflow, job, id=f"{name}-{key}")
    for name, workflow in PARSED.items()
    for key, job in workflow["jobs"].items()
]
STEPS = [
    (f"{name}/{key}", step)
    for name, workflow in PARSED.items()
    for key, job in workflow["jobs"].items()
    for step in job.get("steps", ())
]


def test_the_workflows_are_those_of_the_architecture():
    assert set(PARSED) == {"verify", "site", "publish", "preview", "watch"}
    assert len(STEPS) > 30


def checked(*command):
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_actionlint_finds_nothing():
    assert checked(TOOLS / "actionlint", "-no-color", *WORKFLOWS) == (0, "")


def test_zizmor_finds_nothing():
    code, said = checked(
        TOOLS / "zizmor", "--offline", "--no-progress", "--persona=pedantic", ".github"
    )
    assert "No findings to report" in said
    assert code == 0


def test_the_checkers_check(tmp_path):
    """Each finds what it is there for: the tests above cannot pass by looking at nothing."""
    bad = (ROOT / ".github/workflows/preview.yml").read_text(encoding="utf-8")
    bad = bad.replace("runs-on", "run-on").replace("permissions: {}", "permissions: write-all")
    bad += "\n  more:\n    runs-on: ubuntu-24.04\n    steps:\n"
    bad += "      - run: echo ${{ github.head_ref }}\n"
    path = tmp_path / ".github/workflows/bad.yml"
    path.parent.mkdir(parents=True)
    path.write_text(bad)
    code, said = checked(TOOLS / "actionlint", "-no-color", path)
    assert code == 1 and "github.head_ref" in said
    code, said = checked(TOOLS / "zizmor", "--offline", "--no-progress", path)
    assert code != 0 and "template-injection" in said and "excessive-permissions" in said


def test_actions_are_pinned_by_commit_each_to_one_with_its_version_in_a_comment():
    pins = {}
    for path in WORKFLOWS:
        for line in path.read_text(encoding="utf-8").splitlines():
            if "uses:" in line and "uses: ./" not in line:
                found = re.search(
                    r"uses: ([\w.-]+/[\w./-]+)@([0-9a-f]{40}) # (v\d+\.\d+\.\d+)$", line
                )
                assert found, f"{path.name}: {line.strip()}"
                pins.setdefault(found[1], set()).add((found[2], found[3]))
    assert len(pins) >= 6
    assert {action: len(found) for action, found in pins.items() if len(found) > 1} == {}


@pytest.mark.parametrize(("workflow", "job"), JOBS)
def test_no_job_may_more_than_it_says(workflow, job):
    assert workflow["permissions"] == {}
    assert job["permissions"].keys() <= {"contents", "pages", "id-token", "issues"}
    # No library that a release could have spoilt runs beside a right to write.
    ran = [step["run"] for step in job.get("steps", ()) if "run" in step]
    if "write" in job["permissions"].values():
        assert ran in ([], [".ci/watch-issue.sh watch/report.md"], [PUSH])
    if job["permissions"].get("contents", "read") != "read":
        assert ran == [PUSH]
    assert "uses" in job or 5 <= job["timeout-minutes"] <= 120
    for step in job.get("steps", ()):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


def test_no_secret_is_used_and_nothing_is_pushed_but_the_branch_of_notebooks():
    pushing = []
    for path in [*WORKFLOWS, *(ROOT / ".ci").glob("*.sh")]:
        text = path.read_text(encoding="utf-8")
        assert "secrets." not in text, path.name
        pushing += re.findall(r"^.*(?<![\w-])(?:push|commit) -.*$", text, re.MULTILINE)
        if f".ci/{path.name}" != PUSH.split()[0]:
            assert not re.search(r"\bgit\b.*\b(push|commit)\b", text), path.name
    assert [line.split(" push ")[1] for line in pushing if " push " in line] == [
        '-q --force "$REMOTE" "$branch"'
    ]
    assert "branch=notebooks\n" in (ROOT / PUSH.split()[0]).read_text(encoding="utf-8")


def test_only_the_watch_writes_issues_and_only_publish_deploys():
    rights = {
        (name, right)
        for name, workflow in PARSED.items()
        for job in workflow["jobs"].values()
        for right, level in job["permissions"].items()
        if level == "write"
    }
    assert rights == {
        ("watch", "issues"),
        ("publish", "pages"),
        ("publish", "id-token"),
        ("publish", "contents"),
    }


def test_when_each_runs():
    assert set(PARSED["watch"]["on"]) == {"schedule", "workflow_dispatch"}
    assert [len(one["cron"].split()) for one in PARSED["watch"]["on"]["schedule"]] == [5]
    assert set(PARSED["preview"]["on"]) == {"pull_request"}
    assert PARSED["publish"]["on"]["push"] == {"branches": ["main"]}
    # A push is verified once: by verify itself or, on main, as publish's first job.
    assert PARSED["verify"]["on"]["push"] == {"branches-ignore": ["main"]}
    assert PARSED["publish"]["jobs"]["verify"]["uses"] == "./.github/workflows/verify.yml"
    for name in ("verify", "publish", "preview", "watch"):
        assert PARSED[name]["concurrency"]["group"]


def test_nothing_is_deployed_before_everything_is_verified_and_checked():
    jobs = PARSED["publish"]["jobs"]
    assert (jobs["site"]["needs"], jobs["deploy"]["needs"]) == ("verify", "site")
    assert jobs["notebooks"]["needs"] == "deploy"
    assert jobs["notebooks"]["if"] == jobs["deploy"]["if"]
    assert jobs["deploy"]["if"] == "${{ github.ref == 'refs/heads/main' }}"
    assert PARSED["verify"]["jobs"]["numbers"]["needs"] == ["plan", "chapter"]
    assert PARSED["site"]["jobs"]["check"]["needs"] == "render"


def test_quarto_renders_without_any_environment_for_cells():
    steps = PARSED["site"]["jobs"]["render"]["steps"]
    used = [step["uses"].partition("@")[0] for step in steps if "uses" in step]
    assert used == [
        "actions/checkout",
        "quarto-dev/quarto-actions/setup",
        "actions/upload-artifact",
    ]
    version = steps[1]["with"]["version"]
    assert [step["run"] for step in steps if "run" in step] == [f".ci/render.sh {version}"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"Quarto](https://quarto.org) {version.rpartition('.')[0]}" in readme


def test_the_python_is_that_of_the_committed_freeze_and_its_cache_that_of_the_lock():
    frozen = {
        json.loads(path.read_text(encoding="utf-8"))["python"]
        for path in ROOT.glob("_freeze/chapters/*/execute-results/inputs.json")
    }
    found = [step["with"] for _, step in STEPS if "setup-python@" in step.get("uses", "")]
    assert len(found) >= 6
    assert {one["python-version"] for one in found} == frozen
    for one in found:
        if "cache" in one:
            assert (ROOT / one["cache-dependency-path"]).is_file()
    site = PARSED["site"]["jobs"]["check"]["steps"]
    assert all("cache" not in step.get("with", {}) for step in site)  # it is what gets published


@pytest.mark.parametrize("path", sorted((ROOT / ".ci").glob("*.sh")), ids=lambda path: path.name)
def test_a_script_can_be_run_stops_at_errors_and_says_what_it_does(path):
    assert os.access(path, os.X_OK)
    first, second, *rest = path.read_text(encoding="utf-8").splitlines()
    assert first == "#!/usr/bin/env bash"
    assert re.match(r"# [A-Z].*", second)
    assert any(re.match(r"set -e?uo pipefail$", line) for line in rest)
    assert subprocess.run(["bash", "-n", path], check=False).returncode == 0


def test_every_step_is_one_call_of_a_script_and_every_script_is_called():
    ran = {}
    for place, step in STEPS:
        if "run" in step:
            found = re.fullmatch(r"\.ci/([a-z-]+\.sh)( [\w./\"$-]+)*", step["run"])
            assert found, f"{place}: {step['run']}"
            ran.setdefault(found[1], []).append(place)
    assert set(ran) == {path.name for path in (ROOT / ".ci").glob("*.sh")}


def test_artifacts_that_are_fetched_were_handed_on_by_a_job_before():
    for name, workflow in PARSED.items():
        if name == "publish":
            continue  # fetches what site.yml hands on, by the name that it gives it
        given = [
            step["with"]["name"]
            for job in workflow["jobs"].values()
            for step in job.get("steps", ())
            if "upload-artifact@" in step.get("uses", "")
        ]
        for job in workflow["jobs"].values():
            for step in job.get("steps", ()):
                if "download-artifact@" in step.get("uses", ""):
                    wanted = step["with"].get("name") or step["with"]["pattern"].rstrip("*")
                    assert any(one.startswith(wanted) for one in given), f"{name}: {wanted}"
        hidden = [one for one in given if one.startswith(".")]
        assert hidden == []  # the action leaves hidden files out
    site = PARSED["publish"]["jobs"]["site"]["with"]["artifact"]
    assert PARSED["publish"]["jobs"]["deploy"]["steps"][0]["with"]["name"] == site


def test_jobs_stand_after_what_they_need():
    for workflow in PARSED.values():
        names = list(workflow["jobs"])
        for name, job in workflow["jobs"].items():
            needs = job.get("needs", [])
            for one in [needs] if isinstance(needs, str) else needs:
                assert names.index(one) < names.index(name)


def test_dependabot_keeps_the_pins_and_nothing_else_fresh():
    found = yaml.safe_load((ROOT / ".github/dependabot.yml").read_text(encoding="utf-8"))
    assert [one["package-ecosystem"] for one in found["updates"]] == ["github-actions"]


def test_scripts_come_in_the_order_in_which_a_job_needs_them():
    for name, workflow in PARSED.items():
        for key, job in workflow["jobs"].items():
            ran = [step["run"].split()[0] for step in job.get("steps", ()) if "run" in step]
            for first, second in pairwise(ran):
                assert first != second, f"{name}/{key}"
            if len(ran) > 1:
                assert ran[0] == ".ci/environment.sh", f"{name}/{key}"


@pytest.fixture
def machine(tmp_path):
    """A machine of a few programs, each of which notes its name, arguments and CHROMIUM."""

    def call(script, *arguments, programs=(), real=("bash", "sh", "env", "grep"), **variables):
        tools, calls = tmp_path / "tools", tmp_path / "calls"
        tools.mkdir()
        calls.touch()
        for name in real:
            (tools / name).symlink_to(shutil.which(name))
        for name, said in dict(programs).items():
            text = f'#!/bin/sh\necho "{name} $* $CHROMIUM" >>"{calls}"\necho "{said}"\n'
            (tools / name).write_text(text)
            (tools / name).chmod(0o755)
        done = subprocess.run(
            [ROOT / ".ci" / script, *arguments],
            cwd=tmp_path, env={"PATH": str(tools), **variables}, capture_output=True, check=False,
        )  # fmt: skip
        return done.returncode, [line.strip() for line in calls.read_text().splitlines()]

    return call


def test_the_tests_run_with_the_browser_that_the_machine_has(machine):
    code, calls = machine(
        "tests.sh", programs={"fc-list": "DejaVu Sans", "google-chrome": "", "make": ""}
    )
    assert code == 0
    assert calls[0] == "fc-list"
    assert re.fullmatch(r"make test \S+/tools/google-chrome", calls[1])


def test_a_machine_without_the_font_gets_it(machine):
    code, calls = machine(
        "tests.sh", programs={"fc-list": "Other", "chromium": "", "make": "", "sudo": ""}
    )
    assert code == 0
    assert [call.split(" -")[0] for call in calls] == [
        "fc-list", "sudo apt-get update", "sudo apt-get install", "make test",
    ]  # fmt: skip
    assert calls[2].endswith("fonts-dejavu-core")


def test_the_environment_is_made_from_the_lock_that_is_named(machine, tmp_path):
    script = tmp_path / "code/bookbuild/environment.sh"
    script.parent.mkdir(parents=True)
    script.write_text('echo "$1" >made\n')
    assert machine("environment.sh", "requirements.lock")[0] == 0
    assert (tmp_path / "made").read_text() == "requirements.lock\n"


def test_no_environment_is_made_where_one_is_named(machine, tmp_path):
    book = tmp_path / "book"
    book.write_text("#!/bin/sh\n[ $1 = --help ]\n")
    book.chmod(0o755)
    assert machine("environment.sh", "requirements.lock", BOOK=str(book))[0] == 0
    assert not (tmp_path / "made").exists()
