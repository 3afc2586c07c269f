"""The code exercises: a stub fails with a message that teaches, its solution passes.

The cells run as a reader would run them, in an empty folder elsewhere, one notebook after the other
in one process; one notebook also runs in a real kernel.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "exercises"
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
CELLS = ["task", "setup", "answer", "tests", "after"]
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
# What a reader may write in place of a line of the solution, and what the tests then say.
SLIPS = {
    "stable-softmax": [
        ("scores.max(axis=axis, keepdims=True)", "scores.max()", "each row, not of the array"),
        ("scores - scores.max(axis=axis, keepdims=True)", "scores", "1000"),
        ("sum(axis=axis, keepdims=True)", "sum(axis=-1, keepdims=True)", "axis=0"),
        (
            "exponentials = np.exp(scores - scores.max(axis=axis, keepdims=True))",
            "scores -= scores.max(axis=axis, keepdims=True)\n    exponentials = np.exp(scores)",
            "caller's scores have changed",
        ),
    ],
    "masked-attention": [
        (" / np.sqrt(query.shape[-1])", "", "without the scale"),
        ("np.where(mask, scores, -np.inf)", "scores * mask", "0 exactly"),
        ("np.where(mask, scores, -np.inf)", "np.where(mask, scores, -10)", "0 exactly"),
        (
            "scores = np.where(mask, scores, -np.inf)\n    weights = softmax(scores)",
            "pass\n    weights = softmax(scores) * (1 if mask is None else mask)",
            "before the softmax",
        ),
        ("np.where(mask,", "np.where(~mask,", "0 exactly"),
    ],
    "sinusoids": [
        ("2 * pairs / depth", "pairs / depth", "ten times slower"),
        (
            "np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(length, depth)",
            "np.hstack([np.sin(angles), np.cos(angles)])",
            "in turn",
        ),
    ],
    "decoder-mask": [
        ("real & past", "np.repeat(past, len(tokens), axis=0)", "padding leaks"),
        ("real & past", "np.repeat(real, tokens.shape[1], axis=2)", "the future leaks"),
        ("np.tri(tokens.shape[1]", "np.tri(tokens.shape[1], k=1", "the future leaks"),
        ("np.tri(tokens.shape[1]", "np.tri(tokens.shape[1], k=-1", "diagonal"),
        ("real & past", "~(real & past)", "inverted"),
        ("[:, None, None, :]", "[:, None, :, None]", "see nothing"),
    ],
    "split-heads": [
        ("return heads.swapaxes(1, 2)", "return heads", "merging must undo splitting"),
        ("num_heads, width // num_heads)", "width // num_heads, num_heads)", "(batch, heads"),
    ],
    "masked-mean": [
        ("counts[:, None]", "states.shape[1]", "divided by 3"),
        ("np.where(real[..., None], states, 0)", "(states * real[..., None])", "NaN"),
        ("if not counts.all():", "if False:", "no vector"),
        ("sequence {int(np.argmin(counts))} has", "a sequence has", "which sequence"),
    ],
    "labels-and-loss": [
        ("targets[:, :-1], targets[:, 1:]", "targets[:, 1:], targets[:, 1:]", "all tokens but"),
        ("targets[:, :-1], targets[:, 1:]", "targets[:, :-1], targets[:, :-1]", "after each"),
        ("losses[wanted != 0].mean()", "losses.mean()", "does the padding count"),
        (
            "losses[wanted != 0].mean()",
            "np.mean([row[ids != 0].mean() for row, ids in zip(losses, wanted)])",
            "mean of the sequences' means",
        ),
        ("logits - logits.max(axis=-1, keepdims=True)", "logits", "infinite"),
        ("min(step**-0.5, step", "min((step + 1) ** -0.5, (step + 1)", "step 1"),
        ("min(", "max(", "step 1"),
    ],
    "wordpiece": [
        ('("##" if start else "") + ', "", "have ##"),
        ("range(len(word), start, -1)", "range(start + 1, len(word) + 1)", "longest"),
        ("return [UNKNOWN]\n        pieces", "return [*pieces, UNKNOWN]\n        pieces", "whole"),
        ("len(word) > 100", "len(word) > 1000", "more than 100"),
        ("len(word) > 100", "len(word) >= 100", "still cut"),
    ],
    "corruption": [
        ("(tokens > MASK) & ", "", "never be chosen"),
        ("chosen & (fate < 0.8), MASK", "chosen & (fate < 0.7), MASK", "not 80 %"),
        ("(fate >= 0.8) & (fate < 0.9)", "(fate >= 0.8)", "not 10 %"),
        ("rng.integers(MASK + 1, VOCAB_SIZE, size=tokens.shape)", "rng.integers(4, 9)", "anew"),
        ("fate = rng.random(tokens.shape)", "fate = np.random.random(tokens.shape)", "rng only"),
        ("rng.random(tokens.shape) < 0.15", "rng.random(tokens.shape) < 0.2", "not 15 %"),
    ],
    "rotary": [
        ("x * np.cos(angles) - y", "x * np.cos(angles) + y", "x and y by one angle"),
        ("vectors[..., 0::2], vectors[..., 1::2]", "np.split(vectors, 2, -1)", "at position 0"),
        ("np.arange(0, width, 2) / width", "np.arange(width // 2) / width", "ten times slower"),
    ],
    "cached-step": [
        (" / np.sqrt(WIDTH)", "", "root of the width"),
        ('[cache["key"], state @ TO_KEY]', '[cache["key"], state]', "new key among"),
        (
            'weights @ values, {"key": keys, "value": values}',
            "weights @ values, cache",
            "after one step",
        ),
        ("return weights", "cache.update(key=keys, value=values)\n    return weights", "grown"),
    ],
}
RUNNER = """
import json, sys, traceback
def run(cells):
    space = {"__name__": "__main__"}
    for name, code in cells:
        try:
            exec(compile(code, name, "exec"), space)
        except Exception as error:
            return [name, type(error).__name__, str(error)]
    return None
print = lambda *args, out=print, **kwargs: None
results = [run(cells) for cells in json.load(sys.stdin)]
json.dump({"results": results, "heavy": sorted({"keras", "tensorflow"} & set(sys.modules))},
          open("told.json", "w"))
"""


def read(path):
    return nbformat.read(path, as_version=nbformat.NO_CONVERT)


def code_of(name, solved):
    notebook = read(FOLDER / ("solutions" if solved else "") / f"{name}.ipynb")
    return {cell.id: cell.source for cell in notebook.cells if cell.cell_type == "code"}


def slipped(name, old, new):
    cells = code_of(name, solved=True)
    assert cells["answer"].count(old) == 1, f"{name}: {old!r} is not once in the solution"
    return cells | {"answer": cells["answer"].replace(old, new)}


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What came of each notebook: (name, "stub" | "solution" | number of slip) -> None, or where
    it failed, the error's kind and its text.
    """
    tasks = {}
    for name in NAMES:
        tasks[name, "stub"] = code_of(name, solved=False)
        tasks[name, "solution"] = code_of(name, solved=True)
        for number, (old, new, _) in enumerate(SLIPS[name]):
            tasks[name, number] = slipped(name, old, new)
    folder = tmp_path_factory.mktemp("elsewhere")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "code")}
    subprocess.run(
        [sys.executable, "-c", RUNNER],
        input=json.dumps([list(cells.items()) for cells in tasks.values()]),
        cwd=folder,
        env=environment,
        check=True,
        text=True,
        timeout=120,
    )
    told = json.loads((folder / "told.json").read_text(encoding="utf-8"))
    assert told["heavy"] == [], "an exercise must not cost a reader the start of TensorFlow"
    return dict(zip(tasks, told["results"], strict=True))


def test_there_are_exercises_and_each_has_a_solution_and_slips():
    assert len(NAMES) >= 8
    assert sorted(path.stem for path in (FOLDER / "solutions").glob("*.ipynb")) == NAMES
    assert sorted(SLIPS) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_stub_fails_in_its_tests_with_a_message(told, name):
    where, kind, text = told[name, "stub"]
    assert (where, kind) in [("tests", "AssertionError"), ("tests", "NotImplementedError")]
    assert len(text) > 15


@pytest.mark.parametrize("name", NAMES)
def test_a_solution_passes(told, name):
    assert told[name, "solution"] is None


@pytest.mark.parametrize(
    ("name", "number"), [(name, number) for name in NAMES for number in range(len(SLIPS[name]))]
)
def test_a_slip_is_noticed_and_named(told, name, number):
    failed = told[name, number]
    assert failed is not None, f"{SLIPS[name][number][1]} passes"
    where, kind, text = failed
    assert (where, kind) == ("tests", "AssertionError"), text
    assert SLIPS[name][number][2] in text


@pytest.mark.parametrize("name", NAMES)
def test_stub_and_solution_differ_in_the_answer_only(name):
    stub, solution = read(FOLDER / f"{name}.ipynb"), read(FOLDER / f"solutions/{name}.ipynb")
    pairs = list(zip(stub.cells, solution.cells, strict=True))
    assert [one.id for one, other in pairs if one != other] == ["answer"]


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_is_plain(path):
    notebook = read(path)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    assert notebook.metadata == METADATA
    assert [cell.id for cell in notebook.cells] == CELLS
    for cell in notebook.cells:
        assert cell.metadata == {}
        if cell.cell_type == "code":
            assert (cell.outputs, cell.execution_count) == ([], None)
    text = path.read_text(encoding="utf-8")
    assert text == json.dumps(json.loads(text), indent=1, ensure_ascii=False) + "\n"


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_begins_with_a_title_and_a_short_task(name):
    task = read(FOLDER / f"{name}.ipynb").cells[0].source
    assert task.startswith("# ")
    assert 40 <= len(task.split()) <= 150


def test_a_solution_runs_in_a_kernel(tmp_path):
    notebook = read(FOLDER / "solutions/decoder-mask.ipynb")
    client = NotebookClient(
        notebook, timeout=60, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute(env={**os.environ, "PYTHONPATH": str(ROOT / "code")})
    (printed,) = notebook.cells[3].outputs
    assert printed.text == "All tests pass.\n"
