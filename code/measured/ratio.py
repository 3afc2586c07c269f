"""How the ratio of embedding length to position length moves while a small model learns.

The model adds positions as Vaswani et al. (2017), sections 3.4 and 3.5, do: embeddings times √d,
plus sinusoids. Its task needs both: name the class of the token at one fixed position.
"""

import keras
import numpy as np
from keras import layers

from measured.positions import positional_encoding

LENGTH, DEPTH, VOCABULARY, CLASSES = 11, 100, 60, 4
TOLD_POSITION = 3  # the answer is the class of the token that stands here
BATCH, EVERY = 32, 25  # sequences a step; steps between two notes


def length_ratio(table, depth):
    """Mean row length of √depth · table (tokens, depth), over that of a position, √(depth/2)."""
    rows = np.asarray(table, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != depth:
        raise ValueError(f"table must be (tokens, {depth}), got shape {rows.shape}")
    return float(np.linalg.norm(rows, axis=1).mean() * np.sqrt(depth) / np.sqrt(depth / 2))


def reader(stddev=None):
    """A compiled model, tokens (batch, 11) -> logits (batch, 4): one attention block and a mean.

    Embeddings start normal with deviation stddev, or as Keras does by default where it is None.
    """
    start = "uniform" if stddev is None else keras.initializers.RandomNormal(0.0, stddev)
    tokens = keras.Input((LENGTH,), dtype="int32")
    embed = layers.Embedding(VOCABULARY, DEPTH, embeddings_initializer=start, name="table")
    positions = positional_encoding(LENGTH, DEPTH, dtype="float32")
    states = embed(tokens) * np.sqrt(DEPTH) + positions
    mixed = layers.MultiHeadAttention(4, DEPTH // 4)(states, states)
    pooled = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(states + mixed))
    model = keras.Model(tokens, layers.Dense(CLASSES)(pooled))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"], steps_per_execution=EVERY)
    model.optimizer.build(model.trainable_variables)
    return model


class _Notebook(keras.callbacks.Callback):
    """Notes the ratio before training, and with the accuracy since then every EVERY steps."""

    def on_train_begin(self, logs=None):
        self.ratios, self.accuracies = [self._ratio()], []

    def on_train_batch_end(self, batch, logs=None):
        self.ratios.append(self._ratio())
        self.accuracies.append(float(logs["accuracy"]))
        self.model.reset_metrics()

    def _ratio(self):
        return length_ratio(self.model.get_layer("table").get_weights()[0], DEPTH)


def follow_ratio(model, stddev, seed, notes=8):
    """Train a reader from its start on fresh tokens -> ratios (notes + 1,), accuracies (notes,).

    The first ratio is that of the untrained table. Whatever the model had learned is overwritten:
    passing one model to several runs saves compiling it again. Sets Keras's global seed.
    """
    keras.utils.set_random_seed(seed)
    _copy_state(reader(stddev), model)
    shape = (notes * EVERY * BATCH, LENGTH)
    tokens = np.random.default_rng(seed).integers(0, VOCABULARY, shape)
    answers, notebook = tokens[:, TOLD_POSITION] % CLASSES, _Notebook()
    model.fit(tokens, answers, BATCH, verbose=0, callbacks=[notebook], shuffle=False)
    return np.array(notebook.ratios), np.array(notebook.accuracies)


def _copy_state(source, target):
    """Give the target the source's weights and optimizer state, which includes the step count."""
    sources = source.variables + source.optimizer.variables
    for old, new in zip(target.variables + target.optimizer.variables, sources, strict=True):
        old.assign(new)
