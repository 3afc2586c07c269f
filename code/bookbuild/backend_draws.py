"""Give Keras on another backend the random numbers that the same seeds give it on TensorFlow.

Runs in a kernel, before its chapter. Keras derives seeds in the same way everywhere, but what a
seed draws is the backend's own. From here on initial weights, dropout masks and the order of
batches are drawn by TensorFlow, while all arithmetic stays the backend's. So a number that agrees
with this, and did not without, differed by the draw and by nothing else.

Gamma, beta and binomial numbers, which this book does not draw, stay the backend's own.
"""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras.src import backend, tree
from keras.src.backend import random
from keras.src.random.seed_generator import draw_seed
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter

LARGEST = tf.int32.max - 1  # Keras's own fold of a 64-bit seed into TensorFlow's 32


def start() -> None:
    """Replace what the backend draws by what TensorFlow would. Once a process."""
    for draw in (normal, uniform, truncated_normal, randint, categorical, shuffle, dropout):
        setattr(random, draw.__name__, _unless_symbolic(draw, getattr(random, draw.__name__)))
    for name in ("get_jax_iterator", "get_torch_dataloader"):
        setattr(ArrayDataAdapter, name, _in_its_order(getattr(ArrayDataAdapter, name)))


def normal(shape, mean=0.0, stddev=1.0, dtype=None, seed=None):
    dtype = dtype or keras.config.floatx()
    return _drawn(
        lambda seed: tf.random.stateless_normal(shape, seed, mean, stddev, dtype),
        seed, shape, dtype,
    )  # fmt: skip


def truncated_normal(shape, mean=0.0, stddev=1.0, dtype=None, seed=None):
    dtype = dtype or keras.config.floatx()
    return _drawn(
        lambda seed: tf.random.stateless_truncated_normal(shape, seed, mean, stddev, dtype),
        seed, shape, dtype,
    )  # fmt: skip


def uniform(shape, minval=0.0, maxval=1.0, dtype=None, seed=None):
    dtype = dtype or keras.config.floatx()
    low, high = float(minval), float(maxval)
    return _drawn(
        lambda seed: tf.random.stateless_uniform(
            shape, seed, tf.cast(low, dtype), tf.cast(high, dtype), dtype
        ),
        seed, shape, dtype,
    )  # fmt: skip


def randint(shape, minval, maxval, dtype="int32", seed=None):
    inner = dtype if dtype in ("int32", "int64") else "int64"
    return _drawn(
        lambda seed: tf.cast(
            tf.random.stateless_uniform(shape, seed, int(minval), int(maxval), inner), dtype
        ),
        seed, shape, dtype,
    )  # fmt: skip


def categorical(logits, num_samples, dtype="int64", seed=None):
    logits = keras.ops.convert_to_numpy(logits)
    return _drawn(
        lambda seed: tf.cast(tf.random.stateless_categorical(logits, num_samples, seed), dtype),
        seed, (len(logits), num_samples), dtype,
    )  # fmt: skip


def shuffle(x, axis=0, seed=None):
    length = x.shape[axis]
    order = _drawn(
        lambda seed: tf.argsort(tf.random.stateless_uniform([length], seed)),
        seed, (length,), "int32",
    )  # fmt: skip
    return keras.ops.take(x, order, axis=axis)


def dropout(inputs, rate, noise_shape=None, seed=None):
    if rate == 0:
        return inputs
    if rate == 1:
        return keras.ops.zeros_like(inputs)
    given = noise_shape or inputs.shape
    shape = [size or inputs.shape[axis] for axis, size in enumerate(given)]
    dtype = backend.standardize_dtype(inputs.dtype)
    # Of ones it gives zeros, and what each kept number is multiplied by.
    factors = _drawn(
        lambda seed: tf.nn.experimental.stateless_dropout(tf.ones(shape, dtype), rate, seed),
        seed, shape, dtype,
    )  # fmt: skip
    return inputs * factors


def _drawn(draw: Callable, seed: Any, shape: Any, dtype: str) -> Any:
    """What `draw` gives for a seed as TensorFlow takes it, as a tensor of the backend."""
    shape = tuple(int(size) for size in shape)

    def drawn(seed):
        folded = np.asarray(seed).astype("uint32").astype("int64") % LARGEST
        with tf.device("CPU"):
            return draw(tf.constant(folded, "int32")).numpy()

    if backend.backend() == "jax":
        import jax

        if not isinstance(seed, jax.Array):
            seed = draw_seed(seed)
        if isinstance(seed, jax.core.Tracer):  # inside a compiled step: drawn when that runs
            return jax.pure_callback(drawn, jax.ShapeDtypeStruct(shape, dtype), seed)
    else:
        seed = draw_seed(seed)
    return backend.convert_to_tensor(drawn(backend.convert_to_numpy(seed)), dtype=dtype)


def _unless_symbolic(draw: Callable, own: Callable) -> Callable:
    """PyTorch finds shapes with tensors that hold nothing: those are its own."""

    def drawn(*args, **kwargs):
        if backend.backend() == "torch":
            from keras.src.backend.torch.core import get_device

            if get_device() == "meta":
                return own(*args, **kwargs)
        return draw(*args, **kwargs)

    drawn.__signature__ = inspect.signature(own)
    return drawn


def _in_its_order(own: Callable) -> Callable:
    """Batches of shuffled arrays in the order in which TensorFlow's pipeline shuffles them."""

    def batches(adapter):
        if not adapter._shuffle:
            return own(adapter)
        if not hasattr(adapter, "_drawn"):  # one pipeline for all epochs: it remembers its place
            adapter._drawn = adapter.get_tf_dataset()
        return _Batches(adapter._drawn)

    return batches


class _Batches:
    """Iterated once an epoch."""

    def __init__(self, pipeline: Any):
        self.pipeline = pipeline

    def __iter__(self) -> Iterator:
        for batch in self.pipeline:
            yield tree.map_structure(
                lambda part: backend.convert_to_tensor(part.numpy()), batch, none_is_leaf=False
            )


start()
