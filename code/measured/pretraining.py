"""Masked language modelling: hide some tokens of a text, and learn to tell which they were.

Tokens are rows of ids as `WordPiece` makes them: [CLS], text, [SEP], zeros. A target of 0 means
that nothing is to be predicted. Losses are in nats a predicted token. Source: Devlin et al. (2019),
section 3.1 and appendix A, arXiv:1810.04805, and its released code for the output layer. Corruption
is drawn anew in each epoch, as in Liu et al. (2019), arXiv:1907.11692; BERT drew ten versions
beforehand. There is no next-sentence task. The guesses by counting take it that special tokens have
the first ids, as in a learned vocabulary.
"""

from dataclasses import asdict, dataclass, replace

import keras
import numpy as np
from keras import ops

from measured.bert import TINY, Bert, BertConfig
from measured.multihead import refuse_non_positive
from measured.training import MaskedAccuracy, MaskedCrossEntropy
from measured.wordpiece import CLS, MASK, SEP, SPECIAL, WordPiece, learn_vocabulary

CHOSEN = 0.15  # of a row's tokens
MASKED, RANDOM = 0.8, 0.1  # of the chosen ones; the others stay
# BERT's tables start with a deviation of 0.02, and its largest learning rate is 1e-4. Adam's steps
# of 3e-3 would scramble such small vectors faster than anything could be learned from them.
TABLE_DEVIATION = 0.125


@dataclass(frozen=True)
class Examples:
    """What the model is shown, (rows, sequence), and what it is to find, (rows, chosen): int32."""

    shown: np.ndarray
    places: np.ndarray  # in the sequence
    targets: np.ndarray  # the tokens that were there, 0 where a row has fewer chosen ones

    @property
    def inputs(self):
        return self.shown, self.places


@dataclass(frozen=True)
class PretrainingRun:
    """A trained model, how its loss fell, and what it was trained and tested on."""

    model: keras.Model
    wordpiece: WordPiece
    losses: np.ndarray  # (epochs,), of the training rows during the epoch
    validation_losses: np.ndarray  # (epochs + 1,), the first before any training
    accuracies: np.ndarray  # (epochs + 1,), of the validation
    training: np.ndarray  # tokens (rows, sequence)
    validation: Examples


def text_rows(wordpiece, texts, length):
    """Texts -> int32 (rows, length), each text cut into the fewest parts that fit, of equal size.

    Each part is framed by [CLS] and [SEP]; an empty text gives no row.
    """
    refuse_non_positive(room=length - 2)
    rows = []
    for text in texts:
        ids = [wordpiece.ids[piece] for piece in wordpiece.tokenize(text)]
        parts = -(-len(ids) // (length - 2))
        for part in np.array_split(ids, parts) if parts else ():
            row = np.zeros(length, dtype=np.int32)
            row[: len(part) + 2] = wordpiece.ids[CLS], *part, wordpiece.ids[SEP]
            rows.append(row)
    return np.stack(rows)


def choose(tokens, special, rng, share=CHOSEN):
    """Which tokens are to be predicted: tokens (rows, sequence) -> bool, True = chosen.

    In each row that share of its tokens, frame included, rounded up or down by lot so that the mean
    over rows is right, but at least one; never padding and no id in `special`.
    """
    free = (tokens != 0) & ~np.isin(tokens, special)
    if not free.any(axis=1).all():
        raise ValueError(f"row {int(free.any(axis=1).argmin())} has no token to predict")
    wanted = np.maximum(1, np.floor(share * np.sum(tokens != 0, axis=1) + rng.random(len(tokens))))
    lots = np.where(free, rng.random(tokens.shape), np.inf)
    ranks = lots.argsort(axis=1).argsort(axis=1)
    return free & (ranks < wanted[:, None])


def corrupt(tokens, chosen, wordpiece, rng):
    """What is shown of tokens (rows, sequence): of the chosen ones four in five are [MASK], one in
    ten is a random token, one in ten stays. All others stay.

    A random token is any but a special one; by chance it may be the one that was there.
    """
    ordinary = [number for piece, number in wordpiece.ids.items() if piece not in SPECIAL]
    fate = rng.random(tokens.shape)
    random = rng.choice(ordinary, tokens.shape)
    shown = np.where(chosen & (fate < MASKED), wordpiece.ids[MASK], tokens)
    swapped = chosen & (fate >= MASKED) & (fate < MASKED + RANDOM)
    return np.where(swapped, random, shown).astype(np.int32)


def draw_examples(tokens, wordpiece, rng):
    """Choose, corrupt, and note what is to be found: tokens (rows, sequence) -> Examples."""
    chosen = choose(tokens, [wordpiece.ids[piece] for piece in SPECIAL], rng)
    shown = corrupt(tokens, chosen, wordpiece, rng)
    most = chosen.sum(axis=1).max()
    places = np.argsort(~chosen, axis=1, kind="stable")[:, :most]
    targets = np.where(chosen, tokens, 0)
    return Examples(
        shown, places.astype(np.int32), np.take_along_axis(targets, places, 1).astype(np.int32)
    )


@keras.saving.register_keras_serializable(package="measured")
class MaskedLanguageModel(keras.Model):
    """`Bert` and its output: (tokens (batch, sequence), places (batch, chosen)) -> logits (batch,
    chosen, vocab_size).

    The states at the chosen places alone go through a projection with GELU, a normalisation, and a
    product with the table of token embeddings, which input and output share, plus a bias.

    Args:
        config: A `BertConfig` without pooler, or its fields as a dictionary.
    """

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        config = config if isinstance(config, BertConfig) else BertConfig(**config)
        if config.pooler:
            raise ValueError("nothing would train a pooler here: give a config with pooler=False")
        self.config = config
        self.bert = Bert(config, name="bert")
        self.project = keras.layers.Dense(config.d_model, activation="gelu")
        self.norm = keras.layers.LayerNormalization(epsilon=config.epsilon)

    def build(self, input_shape):
        tokens_shape, places_shape = map(tuple, input_shape)
        self.bert.build(tokens_shape)
        self.project.build((*places_shape, self.config.d_model))
        self.norm.build((*places_shape, self.config.d_model))
        shape = (self.config.vocab_size,)
        self.bias = self.add_weight(shape=shape, initializer="zeros", name="bias")
        self.built = True

    def call(self, inputs, training=None):
        tokens, places = inputs
        states = self.bert(tokens, training=training)
        states = ops.take_along_axis(states, places[:, :, None], axis=1)
        states = self.norm(self.project(states))
        table = self.bert.token_embedding.embeddings
        return ops.matmul(states, ops.transpose(table)) + self.bias

    def get_config(self):
        return {**super().get_config(), "config": asdict(self.config)}


def new_model(vocab_size, length, seed):
    """A tiny BERT of one layer before any training, for `pretrain`: -> MaskedLanguageModel.

    No dropout: the model is too small to learn its texts by heart.
    """
    keras.utils.set_random_seed(seed)
    quiet = {"dropout": 0.0, "attention_dropout": 0.0}
    config = replace(TINY, vocab_size=vocab_size, num_layers=1, max_length=length, **quiet)
    model = MaskedLanguageModel(config)
    model.build([(None, length), (None, None)])
    for table in (model.bert.token_embedding, model.bert.position_embedding):
        table.embeddings.assign(table.embeddings * (TABLE_DEVIATION / 0.02))
    return model


def pretrain(training, held_out, seed, epochs=14, vocab_size=1000, length=16, batch_size=64):
    """Learn a vocabulary and a tiny BERT from the texts `training`: -> PretrainingRun.

    Adam with a warm-up over 100 steps to 3e-3 and a cosine's fall to 0. The validation, made of the
    texts `held_out`, has one corruption for all epochs and seeds.
    """
    wordpiece = WordPiece(learn_vocabulary(training, vocab_size))
    tokens = text_rows(wordpiece, training, length)
    validation = draw_examples(
        text_rows(wordpiece, held_out, length), wordpiece, np.random.default_rng(1)
    )
    model = new_model(len(wordpiece), length, seed)
    steps = epochs * -(-len(tokens) // batch_size)
    rate = keras.optimizers.schedules.CosineDecay(
        0.0, max(1, steps - 100), warmup_target=3e-3, warmup_steps=100
    )
    model.compile(keras.optimizers.Adam(rate), MaskedCrossEntropy(), metrics=[MaskedAccuracy()])
    rng = np.random.default_rng(seed)
    losses, scores = [], [_scores(model, validation)]
    for _ in range(epochs):
        examples = draw_examples(tokens, wordpiece, rng)
        history = model.fit(examples.inputs, examples.targets, batch_size=batch_size, verbose=0)
        losses.append(history.history["loss"][0])
        scores.append(_scores(model, validation))
    validation_losses, accuracies = np.transpose(scores)
    return PretrainingRun(
        model,
        wordpiece,
        np.array(losses),
        validation_losses,
        accuracies,
        tokens,
        validation,
    )


def count_pairs(tokens, vocab_size):
    """How often one id follows another in rows of ids: -> float64 (vocab_size, vocab_size)."""
    left, right = tokens[:, :-1], tokens[:, 1:]
    counts = np.zeros((vocab_size, vocab_size))
    np.add.at(counts, (left[right != 0], right[right != 0]), 1)
    return counts


def frequency_guess(tokens, examples, vocab_size):
    """Probabilities by how often each token is in `tokens`, plus one: -> (chosen, vocab_size).

    `chosen` are the real targets of the examples, row by row; ids of special tokens get nothing.
    """
    share = _shares(tokens, vocab_size)
    return np.broadcast_to(share, (int(np.sum(examples.targets != 0)), vocab_size))


def neighbour_guess(tokens, examples, vocab_size, prior=100):
    """Probabilities by the two neighbours that are shown: -> (chosen, vocab_size).

    p(token | left) p(token | right) / p(token), normalised, from counts of pairs in `tokens`. Each
    neighbour's counts are topped up by `prior` tokens of the average kind, so that a neighbour that
    was never counted, such as [MASK], says nothing.
    """
    share = _shares(tokens, vocab_size)
    pairs = count_pairs(tokens, vocab_size)
    after = (pairs + prior * share) / (pairs.sum(axis=1, keepdims=True) + prior)
    before = (pairs.T + prior * share) / (pairs.T.sum(axis=1, keepdims=True) + prior)
    rows, columns = np.nonzero(examples.targets)
    places = examples.places[rows, columns]
    left, right = examples.shown[rows, places - 1], examples.shown[rows, places + 1]
    guess = after[left] * before[right] / np.maximum(share, 1e-300)
    guess = np.where(share > 0, guess, 0)
    return guess / guess.sum(axis=1, keepdims=True)


def reconsider(guess, examples):
    """The guess, given what is shown at the place itself: (chosen, vocab_size) -> the same shape.

    Bayes' rule with the rates of `corrupt`: [MASK] says nothing, any other token is the true one
    that stayed, or a random one.
    """
    rows, columns = np.nonzero(examples.targets)
    shown = examples.shown[rows, examples.places[rows, columns]]
    ordinary = guess.shape[1] - len(SPECIAL)
    likelihood = np.full(guess.shape, RANDOM / ordinary)
    likelihood[np.arange(len(shown)), shown] += 1 - MASKED - RANDOM
    likelihood[shown < len(SPECIAL)] = 1.0
    posterior = guess * likelihood
    return posterior / posterior.sum(axis=1, keepdims=True)


def score_guess(guess, examples):
    """Loss in nats and accuracy of probabilities (chosen, vocab_size): -> two floats."""
    wanted = examples.targets[examples.targets != 0]
    right = guess[np.arange(len(wanted)), wanted]
    return float(-np.log(right).mean()), float(np.mean(guess.argmax(axis=1) == wanted))


def top_predictions(model, wordpiece, text, count=5):
    """The most probable pieces for the one [MASK] in a text: -> list of (piece, probability)."""
    ids, _ = wordpiece.batch([text])
    places = np.flatnonzero(ids[0] == wordpiece.ids[MASK])
    if len(places) != 1:
        raise ValueError(f"text must have one {MASK}, got {len(places)}")
    logits = ops.convert_to_numpy(model((ids, places[None].astype(np.int32))))[0, 0]
    powers = np.exp(logits.astype("float64") - logits.max())
    best = np.argsort(-powers, kind="stable")[:count]
    return [(wordpiece.vocabulary[number], float(powers[number] / powers.sum())) for number in best]


def _shares(tokens, vocab_size):
    counts = np.bincount(tokens[tokens >= len(SPECIAL)], minlength=vocab_size) + 1.0
    counts[: len(SPECIAL)] = 0
    return counts / counts.sum()


def _scores(model, examples):
    return model.evaluate(examples.inputs, examples.targets, batch_size=256, verbose=0)
