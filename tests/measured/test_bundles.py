import json

import numpy as np
import pytest
from keras import ops
from safetensors.numpy import load_file, save_file

import measured.bundles as bundles
from measured.bundles import (
    BundleError,
    ask_elsewhere,
    load_bundle,
    make_bundle,
    save_bundle,
)
from measured.classifier import ClassifierSize, build_classifier
from measured.passages import Vocabulary

WORDS = ["king", "crown", "fool", "rose", "blood"]
SIZE = ClassifierSize(
    vocab_size=7, num_classes=3, d_model=8, num_heads=2, d_ff=5, num_layers=1, max_length=11
)
TEXTS = ["The king, the crown!", "a rose, a fool", "blood"]
CLASSES = ("comedy", "history", "tragedy")


@pytest.fixture(scope="module")
def bundle():
    model = build_classifier(SIZE, seed=1)
    draw = np.random.default_rng(0)
    model.set_weights([draw.normal(size=w.shape) for w in model.get_weights()])
    return make_bundle(model, Vocabulary(["", "[UNK]", *WORDS]), CLASSES, data="0123abcd")


@pytest.fixture
def saved(bundle, tmp_path):
    folder = tmp_path / "bundle"
    save_bundle(bundle, folder, proof=TEXTS[0])
    return folder


def test_a_fresh_process_predicts_every_bit(bundle, saved):
    expected = bundle.probabilities(TEXTS)
    assert len(set(expected.argmax(axis=1))) > 1, "one class for all texts would show nothing"
    np.testing.assert_array_equal(ask_elsewhere(saved, TEXTS), expected)
    cut(saved / "vocabulary.txt")
    with pytest.raises(BundleError, match="another vocabulary, of 7 words"):
        ask_elsewhere(saved, TEXTS)


def test_what_comes_back_is_what_was_saved(bundle, saved):
    again = load_bundle(saved)
    assert again.vocabulary.words == bundle.vocabulary.words
    assert (again.classes, again.data, again.versions) == (CLASSES, "0123abcd", bundle.versions)
    assert again.model.size == SIZE
    assert all(map(np.array_equal, again.model.get_weights(), bundle.model.get_weights()))


def test_the_same_bundle_is_the_same_bytes(bundle, tmp_path):
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        save_bundle(bundle, folder, TEXTS[0])
    one, two = ({p.name: p.read_bytes() for p in folder.iterdir()} for folder in folders)
    assert one == two and sorted(one) == ["bundle.json", "vocabulary.txt", "weights.safetensors"]


def edit(path, old, new):
    content = path.read_bytes()
    assert content.count(old) == 1
    path.write_bytes(content.replace(old, new))


def flip(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1  # the last bit of the last number
    path.write_bytes(content)


def cut(path):
    path.write_bytes(path.read_bytes()[:-5])


DAMAGE = {
    "a word exchanged": (
        lambda f: edit(f / "vocabulary.txt", b"fool", b"food"),
        r"vocabulary\.txt: another vocabulary, of 7 words: expected SHA-256 \w{12}…, got \w{12}…",
    ),
    "two words swapped": (
        lambda f: edit(f / "vocabulary.txt", b"king\ncrown", b"crown\nking"),
        r"vocabulary\.txt: another vocabulary",
    ),
    "the vocabulary cut off": (
        lambda f: cut(f / "vocabulary.txt"),
        r"vocabulary\.txt: another vocabulary, of 7 words",
    ),
    "classes in another order": (
        lambda f: edit(f / "bundle.json", b'"comedy",\n    "history"', b'"history",\n    "comedy"'),
        r"weights\.safetensors: weights of another bundle\.json: expected SHA-256",
    ),
    "facts cut off": (lambda f: cut(f / "bundle.json"), r"bundle\.json:\d+: is damaged or cut off"),
    "facts of another format": (
        lambda f: edit(f / "bundle.json", b'"format": 1', b'"format": 2'),
        r"bundle\.json: expected a bundle of format 1, got 2",
    ),
    "no UTF-8": (
        lambda f: edit(f / "vocabulary.txt", b"rose", b"r\xffse"),
        r"vocabulary\.txt: is damaged: no UTF-8 at byte 24",
    ),
    "weights cut off": (
        lambda f: cut(f / "weights.safetensors"),
        r"weights\.safetensors: is damaged or cut off",
    ),
    "one bit of a weight": (
        lambda f: flip(f / "weights.safetensors"),
        r"weights\.safetensors: weights that were changed: expected SHA-256",
    ),
    "an empty file": (
        lambda f: (f / "weights.safetensors").write_bytes(b""),
        r"weights\.safetensors: is damaged or cut off",
    ),
    "weights from elsewhere": (
        lambda f: save_file(load_file(f / "weights.safetensors"), f / "weights.safetensors"),
        r"weights\.safetensors: is damaged or cut off",
    ),
    "no weights": (
        lambda f: (f / "weights.safetensors").unlink(),
        r"weights\.safetensors: is missing",
    ),
    "no vocabulary": (lambda f: (f / "vocabulary.txt").unlink(), r"vocabulary\.txt: is missing"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_bundle_is_refused(saved, damage):
    load_bundle(saved)
    do, message = DAMAGE[damage]
    do(saved)
    with pytest.raises(BundleError, match=message):
        load_bundle(saved)


def test_the_vocabulary_of_another_bundle_is_refused(bundle, saved, tmp_path):
    words = Vocabulary(["", "[UNK]", *reversed(WORDS)])
    other = make_bundle(bundle.model, words, CLASSES, "0123abcd")
    save_bundle(other, tmp_path / "other", TEXTS[0])
    (saved / "vocabulary.txt").write_bytes((tmp_path / "other/vocabulary.txt").read_bytes())
    with pytest.raises(BundleError, match="another vocabulary, of 7 words"):
        load_bundle(saved)
    # and with its facts too, it is the weights that do not belong
    (saved / "bundle.json").write_bytes((tmp_path / "other/bundle.json").read_bytes())
    with pytest.raises(BundleError, match=r"weights of another bundle\.json"):
        load_bundle(saved)


def test_code_that_computes_otherwise_fails_the_proof(saved, monkeypatch):
    def tanh(size, seed):
        model = build_classifier(size, seed)
        model.encoder.layers[0].feed_forward.widen.activation = ops.tanh
        return model

    monkeypatch.setattr(bundles, "build_classifier", tanh)
    with pytest.raises(BundleError, match=r"proof's probabilities are off by .* saved with python"):
        load_bundle(saved)


def test_parts_that_do_not_fit_make_no_bundle(bundle):
    with pytest.raises(BundleError, match="the model has 7 token ids, the vocabulary 6"):
        make_bundle(bundle.model, Vocabulary(["", "[UNK]", *WORDS[1:]]), CLASSES, "")
    for classes in [("comedy", "history"), ("comedy", "comedy", "history")]:
        with pytest.raises(BundleError, match="the model has 3 classes, got comedy, "):
            make_bundle(bundle.model, bundle.vocabulary, classes, "")


def test_nothing_is_overwritten(bundle, saved):
    with pytest.raises(BundleError, match="is not empty"):
        save_bundle(bundle, saved, TEXTS[0])


def test_a_text_that_is_too_long_or_has_no_word_is_refused(bundle):
    with pytest.raises(ValueError, match="text 1 has 12 words, expected 1 to 11"):
        bundle.probabilities(["king", "king " * 12])
    with pytest.raises(ValueError, match="text 0 has 0 words"):
        bundle.predict(["…!"[1:]])


def test_the_facts_say_what_a_prediction_depends_on(saved):
    facts = json.loads((saved / "bundle.json").read_text(encoding="utf-8"))
    assert facts["classes"] == list(CLASSES)
    assert facts["size"]["max_length"] == 11
    assert {"vocabulary", "weights", "data", "versions", "padding", "proof"} <= set(facts)
