#!/usr/bin/env python
"""Run a workflow's own steps on this machine: every job in a clone of its own, in order.

    .venv/bin/python .ci/local.py .github/workflows/verify.yml --skip tests

What runs is read from the workflow: its `run:` steps, its matrix as the jobs before it make it, its
artifacts handed on through a folder. Actions that set a machine up are left out: this one is set
up; BOOK names the `book` of its environment, so that no clone makes another. What cannot be done
here, such as deploying, is said and left out. Anything not understood is an error.

It clones the last commit: what is not committed is not tried.
"""

import argparse
import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")
# Conditions of jobs and steps, and when they hold: always, after a failure, or unless one happened.
CONDITIONS = {
    "": "success",
    "success()": "success",
    "!cancelled()": "always",
    "always()": "always",
    "failure()": "failure",
}
# Of the machine, which is set up already.
SET_UP = ("actions/setup-python", "quarto-dev/quarto-actions/setup")
# What only GitHub has.
ELSEWHERE = ("actions/upload-pages-artifact", "actions/deploy-pages")


@dataclass
class Trial:
    """One workflow run: the repository, where artifacts go, what jobs said."""

    repository: Path
    folder: Path
    skip: tuple[str, ...] = ()
    jobs: int = 1
    values: Mapping[str, Any] = field(default_factory=dict)  # `inputs.…`, `github.…`
    environment: Mapping[str, str] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    outputs: dict[str, dict[str, str]] = field(default_factory=dict)

    def run(self, workflow: Path) -> bool:
        """Run all jobs; whether none failed."""
        jobs = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"]
        results: dict[str, str] = {}
        for name in in_order(jobs):
            job = jobs[name]
            needed = {one: results[one] for one in _list(job.get("needs"))}
            if name in self.skip:
                results[name] = "success"
                say(f"{name}: left out, as asked")
            elif not self._due(job, needed):
                results[name] = "skipped"
                say(f"{name}: not due")
            elif "uses" in job:
                results[name] = self._call(name, job)
            else:
                results[name] = self._job(name, job, needed)
        return not self.failed

    def _due(self, job: Mapping[str, Any], needed: Mapping[str, str]) -> bool:
        condition = _condition(job.get("if"))
        for one, result in needed.items():
            condition = condition.replace(
                f"needs.{one}.result == 'success'", str(result == "success")
            )
        condition = condition.replace("github.ref == 'refs/heads/main'", "True")
        parts = condition.split(" && ")
        if "False" in parts:
            return False
        (when,) = [CONDITIONS[part] for part in parts if part != "True"] or ["success"]
        well = all(result == "success" for result in needed.values())
        return when == "always" or well

    def _call(self, name: str, job: Mapping[str, Any]) -> str:
        """A job that is another workflow of the repository."""
        inner = Trial(
            self.repository,
            self.folder,
            self.skip,
            self.jobs,
            {
                **{key: value for key, value in self.values.items() if key.startswith("github.")},
                **{f"inputs.{key}": value for key, value in (job.get("with") or {}).items()},
            },
            self.environment,
        )
        well = inner.run(self.repository / job["uses"])
        self.failed += [f"{name}/{one}" for one in inner.failed]
        return "success" if well else "failure"

    def _job(self, name: str, job: Mapping[str, Any], needed: Mapping[str, str]) -> str:
        values = {
            **self.values,
            **{
                f"needs.{one}.outputs.{key}": value
                for one in needed
                for key, value in self.outputs.get(one, {}).items()
            },
        }
        cells = matrix_of(job, values)
        with ThreadPoolExecutor(self.jobs) as pool:
            done = list(pool.map(lambda cell: self._cell(name, job, {**values, **cell}), cells))
        return "success" if all(done) else "failure"

    def _cell(self, name: str, job: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
        """One job of the matrix, in a clone of its own."""
        label = substitute(str(job.get("name", name)), values)
        started = time.monotonic()
        clone = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.folder)) / "clone"
        outputs: dict[str, str] = {}
        broken = ""
        for step in job["steps"]:
            when = CONDITIONS[_condition(step.get("if"))]
            if when != "always" and (when == "failure") != bool(broken):
                continue
            problem = self._step(step, clone, {**values, **outputs}, outputs)
            broken = broken or problem
        for key, value in () if broken else (job.get("outputs") or {}).items():
            self.outputs.setdefault(name, {})[key] = substitute(value, {**values, **outputs})
        say(f"{label}: {broken or 'ok'}, {time.monotonic() - started:.0f} s")
        if broken:
            self.failed.append(label)
        return not broken

    def _step(self, step, clone: Path, values, outputs: dict[str, str]) -> str:
        """What went wrong, or nothing."""
        if "run" in step:
            return self._run(step, clone, values, outputs)
        action = step["uses"].partition("@")[0]
        options = {
            key: substitute(str(value), values) for key, value in (step.get("with") or {}).items()
        }
        if action == "actions/checkout":
            command = ["git", "clone", "-q", str(self.repository), str(clone)]
            return _said(subprocess.run(command, capture_output=True, text=True, check=False))
        if action == "actions/upload-artifact":
            return self._upload(clone, options)
        if action == "actions/download-artifact":
            return self._download(clone, options)
        if action in ELSEWHERE:
            say(f"  {action}: not here")
            return ""
        if action in SET_UP:
            return ""
        raise SystemExit(f"{step['uses']}: what this action does is not known here")

    def _run(self, step, clone: Path, values, outputs: dict[str, str]) -> str:
        output = clone.parent / "output"
        output.write_text("")
        own = {
            key: substitute(str(value), values) for key, value in (step.get("env") or {}).items()
        }
        environment = {
            **self.environment,
            "GITHUB_OUTPUT": str(output),
            # The clone's own code, also where BOOK is another working copy's.
            "PYTHONPATH": str(clone / "code"),
            **own,
        }
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        if EXPRESSION.search(step["run"]):
            raise SystemExit(f"{step['run']}: an expression in a script; hand it over in env")
        done = subprocess.run(
            command, cwd=clone, env=environment, capture_output=True, text=True, check=False
        )
        for line in output.read_text().splitlines():
            key, _, value = line.partition("=")
            outputs[f"steps.{step.get('id')}.outputs.{key}"] = value
        with (self.folder / "log").open("a", encoding="utf-8") as log:
            log.write(f"$ {step['run']}\n{done.stdout}{done.stderr}")
        return f"FAILED at {step['run']}: {_said(done)}" if done.returncode else ""

    def _upload(self, clone: Path, options: Mapping[str, str]) -> str:
        source, place = clone / options["path"], self.folder / "artifacts" / options["name"]
        if not source.exists():
            wanted = options.get("if-no-files-found", "warn") == "error"
            return f"FAILED: {options['path']} is not there to be handed on" if wanted else ""
        if place.exists():
            raise SystemExit(f"artifact {options['name']}: two jobs call theirs so")
        if source.is_dir():
            shutil.copytree(source, place, ignore=_hidden)
        else:
            place.mkdir(parents=True)
            shutil.copy(source, place)
        return ""

    def _download(self, clone: Path, options: Mapping[str, str]) -> str:
        place = clone.joinpath(options["path"])
        place.mkdir(parents=True, exist_ok=True)
        top = self.folder / "artifacts"
        pattern = options.get("pattern") or options["name"]
        names = sorted(path.name for path in top.glob("*") if fnmatch.fnmatch(path.name, pattern))
        if not names and "name" in options:
            return f"FAILED: no artifact is called {pattern}"
        merged = "name" in options or options.get("merge-multiple") == "True"
        for name in names:
            shutil.copytree(top / name, place if merged else place / name, dirs_exist_ok=True)
        return ""


def stand_in(folder: Path) -> dict[str, str]:
    """An empty repository in the place of GitHub's, for what pushes; where it is, as values."""
    name = "github/book.git"
    command = ["git", "init", "-q", "--bare", str(folder / name)]
    subprocess.run(command, check=True, capture_output=True)
    return {"github.server_url": folder.as_uri(), "github.repository": name}


def in_order(jobs: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Names of jobs, each after those that it needs."""
    done: set[str] = set()
    while len(done) < len(jobs):
        ready = [
            name
            for name in jobs
            if name not in done and set(_list(jobs[name].get("needs"))) <= done
        ]
        if not ready:
            raise SystemExit(f"jobs need each other in a circle: {', '.join(set(jobs) - done)}")
        yield ready[0]
        done.add(ready[0])


def matrix_of(job: Mapping[str, Any], values: Mapping[str, Any]) -> list[dict[str, str]]:
    """The cells of a job's matrix, each as `matrix.…` → value; one empty cell without a matrix."""
    matrix = (job.get("strategy") or {}).get("matrix")
    if matrix is None:
        return [{}]
    if isinstance(matrix, str):
        found = re.fullmatch(r"\$\{\{\s*fromJSON\((.*?)\)\s*\}\}", matrix)
        matrix = json.loads(substitute("${{ " + found[1] + " }}", values))
    if set(matrix) == {"include"}:
        return [{f"matrix.{key}": value for key, value in row.items()} for row in matrix["include"]]
    (key,) = matrix  # one dimension is all that the workflows have
    return [{f"matrix.{key}": value} for value in matrix[key]]


def substitute(text: str, values: Mapping[str, Any]) -> str:
    """Replace the expressions in a text; those of GitHub's own become empty."""

    def value(found: re.Match[str]) -> str:
        if found[1] in values:
            return str(values[found[1]])
        if found[1].startswith(("github.", "steps.deployment.")):
            return ""
        raise SystemExit(f"{found[0]}: has no value here")

    return EXPRESSION.sub(value, text)


def _condition(text: Any) -> str:
    found = EXPRESSION.fullmatch(str(text or "").strip())
    return found[1] if found else str(text or "")


def _list(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value or ())


def _hidden(_, names: list[str]) -> list[str]:
    return [name for name in names if name.startswith(".")]


def _said(done: subprocess.CompletedProcess[str]) -> str:
    if done.returncode == 0:
        return ""
    return "\n".join((done.stderr or done.stdout).strip().splitlines()[-12:]) or "no message"


def say(line: str) -> None:
    print(line, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("workflow", type=Path)
    parser.add_argument("--repository", type=Path, default=Path.cwd(), help="what is cloned")
    parser.add_argument("--skip", action="append", default=[], metavar="JOB", help="leave it out")
    parser.add_argument("--jobs", type=int, default=1, help="cells of a matrix at a time")
    parser.add_argument("--folder", type=Path, help="where clones and artifacts stay afterwards")
    options = parser.parse_args()
    book = os.environ.get("BOOK") or str(Path(sys.executable).with_name("book"))
    # Nothing of a caller's Git (as in a hook) decides where clones look.
    outer = {key: value for key, value in os.environ.items() if not key.startswith("GIT")}
    folder = options.folder or Path(tempfile.mkdtemp(prefix="workflow-"))
    folder.mkdir(parents=True, exist_ok=True)
    trial = Trial(
        options.repository.resolve(),
        folder.resolve(),
        tuple(options.skip),
        options.jobs,
        values=stand_in(folder.resolve()),
        environment={**outer, "BOOK": book},
    )
    well = trial.run(options.repository / options.workflow)
    if well and options.folder is None:
        shutil.rmtree(folder)
    else:
        say(f"clones, artifacts and log: {folder}")
    say("every job went well" if well else f"failed: {', '.join(trial.failed)}")
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
