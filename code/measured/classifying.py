"""Training a classifier on passages, and scoring it over folds and seeds.

One model is compiled once and put back to its first weights for each run: building and tracing
would take longer than training. Early stopping looks at the validation part and at nothing else.
"""

from dataclasses import dataclass
from itertools import islice

import keras
import numpy as np

from measured.baselines import fit_tfidf, majority_class
from measured.classifier import ClassifierSize
from measured.passages import GENRES, Vocabulary

LENGTH = 71  # words of the longest passage; more columns would be padding and change no result


@dataclass(frozen=True)
class Run:
    """One training. Losses are per look; the weights kept are those of look `best`, from 1."""

    training_loss: tuple[float, ...]
    validation_loss: tuple[float, ...]
    best: int


@dataclass(frozen=True)
class Scores:
    """What one kind of model scored: accuracy in test and validation (folds, seeds), and the class
    that each passage got when its fold was the test, predicted (seeds, passages).
    """

    accuracy: np.ndarray
    validation: np.ndarray
    predicted: np.ndarray

    @property
    def mean(self):
        return float(self.accuracy.mean())

    @property
    def over_folds(self):
        """Standard deviation of the folds' accuracies, each a mean over seeds."""
        return float(self.accuracy.mean(axis=1).std(ddof=1))

    @property
    def over_seeds(self):
        """Standard deviation of the seeds' accuracies, each a mean over folds; 0 for one seed."""
        seeds = self.accuracy.mean(axis=0)
        return float(seeds.std(ddof=1)) if len(seeds) > 1 else 0.0


class Trainer:
    """A compiled model that can start anew: `make(seed)` builds it with its first weights.

    Args:
        make: See above.
        learning_rate: Of Adam.
        batch_size: How many texts a step.
        looks: How often an epoch the validation loss is computed; it may be lowest within one.
        patience: After how many looks without a new lowest loss training ends.
        limit: After how many looks it ends in any case.
    """

    def __init__(self, make, learning_rate, batch_size=32, looks=1, patience=1, limit=20):
        self.make, self.batch_size, self.looks = make, batch_size, looks
        self.patience, self.limit = patience, limit
        self.model = make(0)
        self.optimizer = keras.optimizers.Adam(learning_rate)
        self.model.compile(self.optimizer, "sparse_categorical_crossentropy")
        self.optimizer.build(self.model.trainable_variables)
        self._fresh = [np.array(variable) for variable in self.optimizer.variables]

    def reset(self, seed):
        """First weights, first state of every dropout, an optimizer that remembers nothing."""
        for ours, first in zip(self.model.variables, self.make(seed).variables, strict=True):
            ours.assign(first)
        for ours, first in zip(self.optimizer.variables, self._fresh, strict=True):
            ours.assign(first)

    def train(self, training, validation, seed):
        """Train until the validation loss has stopped falling: -> Run.

        Each part is (tokens, labels). A seed draws the first weights, dropout, and the order of
        the texts; in each epoch, what does not fill a batch is left out.
        """
        self.reset(seed)
        tokens, labels = training
        stream = _batches(len(labels), self.batch_size, np.random.default_rng(seed))
        steps = len(labels) // (self.batch_size * self.looks)
        if not steps:
            raise ValueError(
                f"{len(labels)} texts do not fill a batch of {self.batch_size} for each of "
                f"{self.looks} looks"
            )
        losses, watched, best, kept = [], [], 0, None
        while len(watched) < self.limit and len(watched) < best + self.patience:
            self.model.reset_metrics()
            for rows in islice(stream, steps):
                loss = self.model.train_on_batch(tokens[rows], labels[rows])
            losses.append(float(loss))
            watched.append(self.loss(*validation))
            if watched[-1] == min(watched):
                best, kept = len(watched), self.model.get_weights()
        self.model.set_weights(kept)
        return Run(tuple(losses), tuple(watched), best)

    def train_for(self, epochs, training, seed):
        """Train for so many epochs, without a look at anything; seed and batches as in `train`."""
        self.reset(seed)
        tokens, labels = training
        stream = _batches(len(labels), self.batch_size, np.random.default_rng(seed))
        for rows in islice(stream, epochs * (len(labels) // self.batch_size)):
            self.model.train_on_batch(tokens[rows], labels[rows])

    def probabilities(self, tokens):
        """(texts, length) -> float32 (texts, classes)."""
        return self.model.predict_on_batch(tokens)

    def loss(self, tokens, labels):
        """Mean cross-entropy in nats."""
        return cross_entropy(self.probabilities(tokens), labels)


def cross_entropy(probabilities, labels):
    """Mean -ln of the probability of the true class: (texts, classes), (texts,) -> float."""
    true = probabilities[np.arange(len(labels)), labels].astype("float64")
    return float(-np.log(np.maximum(true, 1e-7)).mean())


def encode_fold(passages, fold, part="training", size=ClassifierSize.vocab_size):
    """-> Vocabulary of one part of a fold, token ids of all passages (passages, 71)."""
    vocabulary = Vocabulary.adapt(passages.select(getattr(fold, part)), size)
    return vocabulary, vocabulary.encode(passages.texts, LENGTH)


def train_on_fold(trainer, passages, fold, tokens, seed):
    """Train on one fold with early stopping; the trainer's model keeps the weights: -> Run."""
    parts = [(tokens[rows], passages.labels[rows]) for rows in (fold.training, fold.validation)]
    return trainer.train(*parts, seed)


def cross_validate(trainer, passages, folds, seeds):
    """Train on every fold with every seed, with early stopping: -> Scores."""

    def predictions(fold):
        _, tokens = encode_fold(passages, fold)
        for seed in seeds:
            train_on_fold(trainer, passages, fold, tokens, seed)
            yield _classes(trainer, tokens, fold)

    return score(passages, folds, predictions)


def cross_validate_all(trainer, passages, folds, seeds, epochs):
    """The same without early stopping, on all that is `seen` before the test, as TF-IDF has it."""

    def predictions(fold):
        _, tokens = encode_fold(passages, fold, "seen")
        for seed in seeds:
            trainer.train_for(epochs, (tokens[fold.seen], passages.labels[fold.seen]), seed)
            yield _classes(trainer, tokens, fold)

    return score(passages, folds, predictions)


def cross_validate_tfidf(passages, folds, part="seen", words=None, adapt_on_all=False):
    """The same of `fit_tfidf`, which needs no seed. It may learn from all that is `seen` before the
    test, since it needs no validation, or from the `training` part alone, as the others do.

    With `adapt_on_all` words and weights come from all passages, those of the test too: a leak.
    """
    adapt_to = passages.texts if adapt_on_all else None

    def predictions(fold):
        rows = getattr(fold, part)
        some, labels = passages.select(rows), passages.labels[rows]
        return [fit_tfidf(some, labels, words=words, adapt_to=adapt_to).predict(passages.texts)]

    return score(passages, folds, predictions)


def cross_validate_majority(passages, folds):
    """The same of the class that is most frequent in training."""

    def predictions(fold):
        return [np.full(len(passages), majority_class(passages.labels[fold.training]))]

    return score(passages, folds, predictions)


def score(passages, folds, predictions):
    """Score `predictions(fold)`, one row (passages,) of classes a seed: -> Scores."""
    accuracy, validation, predicted = [], [], None
    for fold in folds:
        rows = np.array(list(predictions(fold)))
        right = rows == passages.labels
        accuracy.append(right[:, fold.test].mean(axis=1))
        validation.append(right[:, fold.validation].mean(axis=1))
        if predicted is None:
            predicted = np.full(rows.shape, -1)
        predicted[:, fold.test] = rows[:, fold.test]
    return Scores(np.array(accuracy), np.array(validation), predicted)


def confusion(labels, predicted):
    """How often each true class (rows) was given each class (columns): share of the true class."""
    counts = np.zeros((len(GENRES), len(GENRES)))
    labels, predicted = np.broadcast_arrays(labels, predicted)
    np.add.at(counts, (labels.ravel(), predicted.ravel()), 1)
    return counts / counts.sum(axis=1, keepdims=True)


def accuracy_by_play(passages, predicted):
    """Share right of each play, over passages and seeds: -> dict of play -> float, worst first."""
    right = np.mean(predicted == passages.labels, axis=0)
    found = {play: float(right[passages.plays == play].mean()) for play in passages.plays}
    return dict(sorted(found.items(), key=lambda item: (item[1], item[0])))


def _classes(trainer, tokens, fold):
    """The class of each passage of validation and test, and -1 for the others: -> (passages,)."""
    found = np.full(len(tokens), -1)
    rows = np.concatenate([fold.validation, fold.test])
    found[rows] = trainer.probabilities(tokens[rows]).argmax(axis=1)
    return found


def _batches(count, size, rng):
    """Row numbers of batches without end; each epoch draws a new order."""
    while True:
        order = rng.permutation(count)
        for start in range(0, count - size + 1, size):
            yield order[start : start + size]
