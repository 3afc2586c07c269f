from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix, log_loss

from measured.baselines import build_mean_embedding
from measured.classifier import ClassifierSize, build_classifier
from measured.classifying import (
    LENGTH,
    Scores,
    Trainer,
    accuracy_by_play,
    confusion,
    cross_entropy,
    cross_validate,
    cross_validate_all,
    cross_validate_majority,
    cross_validate_tfidf,
    encode_fold,
    score,
    train_on_fold,
)
from measured.passages import Fold, folds_by_play, read_passages

SIZE = ClassifierSize(vocab_size=31, num_classes=3, d_model=8, num_heads=2, d_ff=7, max_length=13)
RNG = np.random.default_rng(0)


def texts(count):
    """Texts that a token of their class gives away."""
    labels = RNG.integers(0, 3, count)
    tokens = RNG.integers(4, 31, (count, 11))
    tokens[:, 5] = 1 + labels
    return tokens, labels


TRAINING, VALIDATION = texts(101), texts(37)


@pytest.fixture(scope="module")
def trainer():
    return Trainer(
        lambda seed: build_classifier(SIZE, seed), 1e-2, 16, looks=2, patience=3, limit=11
    )


def test_a_seed_gives_the_same_run_whatever_ran_before(trainer):
    first = trainer.train(TRAINING, VALIDATION, seed=1)
    weights = trainer.model.get_weights()
    other = trainer.train(TRAINING, VALIDATION, seed=2)
    assert trainer.train(TRAINING, VALIDATION, seed=1) == first != other
    assert all(map(np.array_equal, trainer.model.get_weights(), weights))


def test_a_model_that_was_put_back_is_as_good_as_new(trainer):
    trainer.train(TRAINING, VALIDATION, seed=3)
    new = Trainer(lambda seed: build_classifier(SIZE, seed), 1e-2, 16, 2, 3, 11)
    assert new.train(TRAINING, VALIDATION, seed=4) == trainer.train(TRAINING, VALIDATION, seed=4)


def test_the_weights_kept_are_those_with_the_lowest_validation_loss(trainer):
    run = trainer.train(TRAINING, VALIDATION, seed=0)
    assert run.best == 1 + int(np.argmin(run.validation_loss))
    assert trainer.loss(*VALIDATION) == run.validation_loss[run.best - 1]
    assert len(run.validation_loss) == min(11, run.best + 3)
    assert run.validation_loss[run.best - 1] < 0.9 * np.log(3), "nothing was learned"


@pytest.mark.parametrize(
    ("losses", "patience", "limit", "looks", "best"),
    [
        ([3, 2, 4, 1, 0], 1, 9, 3, 2),
        ([3, 2, 4, 1, 5, 6], 2, 9, 6, 4),
        ([5, 4, 3, 2], 2, 3, 3, 3),
        ([2, 3, 3, 3], 3, 9, 4, 1),
    ],
)
def test_when_training_stops_and_what_it_keeps(losses, patience, limit, looks, best):
    seen = []

    class Told(Trainer):
        def loss(self, tokens, labels):
            seen.append(self.model.get_weights())
            return float(losses[len(seen) - 1])

    trainer = Told(
        lambda seed: build_mean_embedding(SIZE, seed), 1e-2, 50, patience=patience, limit=limit
    )
    run = trainer.train(TRAINING, VALIDATION, seed=0)
    assert (len(run.validation_loss), run.best) == (looks, best)
    same = [all(map(np.array_equal, trainer.model.get_weights(), weights)) for weights in seen]
    assert same == [look == best for look in range(1, looks + 1)]


def test_a_batch_that_cannot_be_filled_is_refused():
    trainer = Trainer(lambda seed: build_mean_embedding(SIZE, seed), 1e-2, 51, looks=2)
    with pytest.raises(ValueError, match="101 texts do not fill a batch of 51 for each of 2 looks"):
        trainer.train(TRAINING, VALIDATION, seed=0)


def test_the_cross_entropy_of_scikit_learn():
    probabilities = RNG.dirichlet([1, 1, 1], 7)
    labels = np.array([0, 1, 2, 2, 1, 0, 0])
    expected = log_loss(labels, probabilities)
    assert cross_entropy(probabilities, labels) == pytest.approx(expected, rel=1e-6)


def test_confusion_by_hand_and_by_scikit_learn():
    labels = np.array([0, 0, 1, 1, 1, 1, 2])
    predicted = np.array([0, 2, 1, 1, 1, 0, 2])
    expected = [[0.5, 0, 0.5], [0.25, 0.75, 0], [0, 0, 1]]
    assert confusion(labels, predicted).tolist() == expected
    theirs = confusion_matrix(labels, predicted, normalize="true")
    np.testing.assert_allclose(confusion(labels, predicted), theirs)
    # two seeds that agree count as one
    assert confusion(labels, np.stack([predicted, predicted])).tolist() == expected


PASSAGES = SimpleNamespace(
    plays=np.array(["a", "a", "b", "b", "c", "c"]),
    labels=np.array([0, 0, 1, 1, 2, 2]),
    texts=("x",) * 6,
)


def test_accuracy_of_plays_by_hand():
    predicted = np.array([[0, 1, 1, 1, 0, 0], [0, 0, 1, 1, 2, 0]])
    found = accuracy_by_play(PASSAGES, predicted)
    assert list(found.items()) == [("c", 0.25), ("a", 0.75), ("b", 1.0)]


def test_scores_by_hand():
    folds = [Fold(np.array([2, 4]), np.array([3, 5]), np.array([0, 1]))]
    folds += [Fold(np.array([0]), np.array([1]), np.array([2, 3, 4, 5]))]
    rows = {0: [[0, 1, 1, 1, 2, 2], [0, 0, 1, 0, 2, 2]], 2: [[0] * 6, [1] * 6]}
    scores = score(PASSAGES, folds, lambda fold: rows[fold.test[0]])
    assert scores.accuracy.tolist() == [[0.5, 1.0], [0.0, 0.5]]
    assert scores.validation.tolist() == [[1.0, 0.5], [1.0, 0.0]]
    assert scores.predicted.tolist() == [[0, 1, 0, 0, 0, 0], [0, 0, 1, 1, 1, 1]]
    assert scores.mean == 0.5


def test_spreads_by_hand():
    accuracy = np.array([[0.5, 0.7], [0.1, 0.3]])
    scores = Scores(accuracy, accuracy, np.zeros((2, 0)))
    assert scores.over_folds == pytest.approx(np.sqrt(2) * 0.2)  # 0.6 and 0.2
    assert scores.over_seeds == pytest.approx(np.sqrt(2) * 0.1)  # 0.3 and 0.5
    one = Scores(accuracy[:, :1], accuracy, np.zeros((1, 0)))
    assert one.over_seeds == 0


@pytest.fixture(scope="module")
def passages():
    return read_passages()


def test_the_longest_passage_fills_the_columns(passages):
    fold = folds_by_play(passages)[0]
    vocabulary, tokens = encode_fold(passages, fold)
    assert tokens.shape == (2100, LENGTH)
    assert np.sum(tokens != 0, axis=1).max() == LENGTH
    seen = {word for row in fold.training for word in passages.texts[row].lower().split()}
    assert len(vocabulary) == 5000 and "hamlet" not in set(vocabulary.words) - seen


def test_majority_scores_the_share_of_comedies(passages):
    scores = cross_validate_majority(passages, folds_by_play(passages))
    assert scores.mean == pytest.approx(0.4)  # 14 of 35 plays
    assert set(scores.predicted.ravel().tolist()) == {0}


def test_tfidf_learns_from_training_or_from_all_that_may_be_seen(passages):
    fold = folds_by_play(passages)[:1]
    little, much = (cross_validate_tfidf(passages, fold, part) for part in ("training", "seen"))
    assert 0.4 < little.mean < 0.9 and 0.4 < much.mean < 0.9
    assert much.validation.mean() > little.validation.mean() + 0.2  # it has seen these


def test_a_fold_is_scored_by_the_model_that_did_not_see_it(passages):
    folds = folds_by_play(passages)[:2]
    trainer = Trainer(lambda seed: build_mean_embedding(ClassifierSize(), seed), 1e-2, 256, limit=2)
    scores = cross_validate(trainer, passages, folds, [5, 6])
    assert scores.accuracy.shape == (2, 2)
    _, tokens = encode_fold(passages, folds[1])
    train_on_fold(trainer, passages, folds[1], tokens, 6)
    rows = folds[1].test
    expected = trainer.probabilities(tokens[rows]).argmax(axis=1)
    np.testing.assert_array_equal(scores.predicted[1, rows], expected)
    untouched = np.setdiff1d(np.arange(2100), np.concatenate([fold.test for fold in folds]))
    assert set(scores.predicted[:, untouched].ravel().tolist()) == {-1}


def test_a_fixed_number_of_epochs_is_a_run_that_nobody_watches(trainer):
    tokens, labels = TRAINING
    even = tokens[:96], labels[:96]  # six batches an epoch: both kinds of run see the same ones
    watched = Trainer(
        lambda seed: build_classifier(SIZE, seed), 1e-2, 16, looks=2, patience=9, limit=4
    )
    run = watched.train(even, VALIDATION, seed=1)
    trainer.train_for(2, even, seed=1)
    assert trainer.loss(*VALIDATION) == run.validation_loss[3]


def test_training_on_all_that_is_seen_includes_the_validation_part(passages):
    fold = folds_by_play(passages)[:1]
    trainer = Trainer(lambda seed: build_mean_embedding(ClassifierSize(), seed), 5e-2, 64)
    scores = cross_validate_all(trainer, passages, fold, [3, 4], epochs=3)
    assert scores.accuracy.shape == (1, 2)
    assert scores.validation.min() > 0.9 > scores.accuracy.max()
