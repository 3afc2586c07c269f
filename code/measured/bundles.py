"""A classifier saved with all that its numbers mean, and refused when parts do not fit together.

A bundle is a folder of three files. `weights.safetensors` holds the arrays, and in its header the
digest of `bundle.json`; `vocabulary.txt` has one word a line, in the order of their ids;
`bundle.json` has the digests of both, and the rest: classes in order, sizes and longest text,
versions, the data's digest, and a proof, one text with the probabilities it had when it was saved.
So no file can be exchanged, cut or changed alone.
"""

import hashlib
import json
import os
import platform
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import keras
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from measured.classifier import ClassifierSize, build_classifier, check_batch
from measured.passages import Vocabulary

FORMAT = 1
WEIGHTS, WORDS, FACTS = "weights.safetensors", "vocabulary.txt", "bundle.json"
# Another processor may round otherwise; another tokenizer or activation is off by far more.
PROOF_TOLERANCE = 1e-4
# What `ask_elsewhere` runs: it knows nothing but the folder and the texts.
ELSEWHERE = """
import json, sys
from measured.bundles import load_bundle
bundle = load_bundle(sys.argv[1])
print(json.dumps(bundle.probabilities(json.load(sys.stdin)).tolist()))
"""


class BundleError(ValueError):
    """A bundle that cannot be trusted: the message says which file, what was expected and came."""


@dataclass(frozen=True)
class Bundle:
    """A model that can be asked in words."""

    model: keras.Model
    vocabulary: Vocabulary
    classes: tuple[str, ...]
    data: str  # SHA-256 of the file it was trained on
    versions: dict[str, str]

    def probabilities(self, texts):
        """Texts -> float32 (texts, classes). Refuses what the model was not made for."""
        size = self.model.size
        tokens = self.vocabulary.encode(texts, size.max_length)
        tokens = check_batch(tokens, size.vocab_size, size.max_length)
        return self.model.predict_on_batch(tokens)

    def predict(self, texts):
        """Texts -> names of their classes."""
        return [self.classes[number] for number in self.probabilities(texts).argmax(axis=1)]


def make_bundle(model, vocabulary, classes, data):
    """Put a trained `Classifier` together with what it needs: -> Bundle of this environment."""
    classes = tuple(classes)
    if len(vocabulary) != model.size.vocab_size:
        raise BundleError(
            f"the model has {model.size.vocab_size} token ids, the vocabulary {len(vocabulary)}"
        )
    if len(classes) != model.size.num_classes or len(set(classes)) < len(classes):
        raise BundleError(
            f"the model has {model.size.num_classes} classes, got {', '.join(classes)}"
        )
    return Bundle(model, vocabulary, classes, data, versions())


def save_bundle(bundle, folder, proof):
    """Write a bundle to a new or empty folder. `proof` is a text to try when it is loaded."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise BundleError(f"{folder}: is not empty")
    arrays = _arrays(bundle.model)
    facts = {
        "format": FORMAT,
        "classes": list(bundle.classes),
        "size": asdict(bundle.model.size),
        "padding": "id 0: hidden in attention, left out of the mean",
        "vocabulary": bundle.vocabulary.sha256(),
        "weights": _digest_arrays(arrays),
        "data": bundle.data,
        "versions": bundle.versions,
        "proof": {"text": proof, "probabilities": bundle.probabilities([proof])[0].tolist()},
    }
    text = json.dumps(facts, indent=2, ensure_ascii=False) + "\n"
    _write(folder / FACTS, text)
    _write(folder / WORDS, "\n".join(bundle.vocabulary.words) + "\n")
    save_file(arrays, folder / WEIGHTS, {"facts": _digest(text)})


def load_bundle(folder):
    """Read a bundle and try its proof: -> Bundle. Refuses one whose files do not fit together."""
    folder = Path(folder)
    text = _read(folder / FACTS)
    facts = _facts(folder / FACTS, text)
    arrays = _weights(folder / WEIGHTS, _digest(text), facts)
    vocabulary = _vocabulary(folder / WORDS, facts["vocabulary"])
    model = build_classifier(ClassifierSize(**facts["size"]), seed=0)
    model.set_weights(list(arrays.values()))
    bundle = Bundle(model, vocabulary, tuple(facts["classes"]), facts["data"], facts["versions"])
    _try_proof(folder / FACTS, bundle, facts["proof"])
    return bundle


def ask_elsewhere(folder, texts):
    """Load a bundle in a fresh process and ask it: -> float32 (texts, classes)."""
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, str(folder)],
        input=json.dumps(list(texts)),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BundleError(done.stderr.strip().splitlines()[-1])
    # JSON writes as many digits as tell two numbers apart: no bit is lost on the way.
    return np.array(json.loads(done.stdout), dtype=np.float32)


def versions():
    """What this environment computes with."""
    return {
        "python": platform.python_version(),
        "keras": keras.__version__,
        "numpy": np.__version__,
    }


def _facts(path, text):
    try:
        facts = json.loads(text)
    except json.JSONDecodeError as error:
        raise BundleError(f"{path}:{error.lineno}: is damaged or cut off: {error.msg}") from None
    found = facts.get("format") if isinstance(facts, dict) else type(facts).__name__
    if found != FORMAT:
        raise BundleError(f"{path}: expected a bundle of format {FORMAT}, got {found}")
    return facts


def _weights(path, digest, facts):
    """The arrays of a file that was saved with these facts, in the order of the model's weights."""
    try:
        with safe_open(path, framework="numpy") as file:
            _refuse_other(path, f"weights of another {FACTS}", digest, file.metadata()["facts"])
            arrays = {name: file.get_tensor(name) for name in sorted(file.keys())}
    except FileNotFoundError:
        raise BundleError(f"{path}: is missing") from None
    except (SafetensorError, TypeError, KeyError) as error:
        raise BundleError(f"{path}: is damaged or cut off: {error}") from None
    _refuse_other(path, "weights that were changed", facts["weights"], _digest_arrays(arrays))
    return arrays


def _vocabulary(path, expected):
    words = _read(path).removesuffix("\n").split("\n")
    what = f"another vocabulary, of {len(words)} words"
    _refuse_other(path, what, expected, _digest("\n".join(words)))
    return Vocabulary(words)


def _try_proof(path, bundle, proof):
    got = bundle.probabilities([proof["text"]])[0]
    off = float(np.max(np.abs(got - proof["probabilities"])))
    if not off <= PROOF_TOLERANCE:
        then, now = (
            ", ".join(f"{name} {version}" for name, version in found.items())
            for found in (bundle.versions, versions())
        )
        raise BundleError(
            f"{path}: the proof's probabilities are off by {off:.2g}, expected at most "
            f"{PROOF_TOLERANCE:g}; saved with {then}; here {now}"
        )


def _refuse_other(path, what, expected, found):
    if found != expected:
        raise BundleError(f"{path}: {what}: expected SHA-256 {expected[:12]}…, got {found[:12]}…")


def _arrays(model):
    """Weights by number and name: Keras's own paths count the models of a process."""
    return {f"{i:03d} {weight.name}": np.array(weight) for i, weight in enumerate(model.weights)}


def _digest_arrays(arrays):
    digest = hashlib.sha256()
    for name, array in arrays.items():
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _digest(text):
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _read(path):
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise BundleError(f"{path}: is missing") from None
    except UnicodeDecodeError as error:
        raise BundleError(f"{path}: is damaged: no UTF-8 at byte {error.start}") from None


def _write(path, text):
    path.write_bytes(text.encode("utf-8"))
