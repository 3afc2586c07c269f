"""Teaching a Transformer to predict the next token: learning rate, loss, scores, first gradients.

Padding (id 0) is no target: loss and scores are means over real tokens only. Sources: Vaswani et
al. (2017), sections 5.3 and 5.4, arXiv:1706.03762; Szegedy et al. (2016), section 7,
arXiv:1512.00567, for label smoothing.
"""

from itertools import chain

import keras
import numpy as np
from keras import ops

from measured.multihead import refuse_non_positive
from measured.stacks import Encoder

PAD = 0


@keras.saving.register_keras_serializable(package="measured")
class WarmupSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """Equation 3: factor · d_model^-0.5 · min(step^-0.5, step · warmup_steps^-1.5).

    It rises in a line until `warmup_steps` and falls with the root of the step after. Steps
    count from 1, as in the paper: Keras's step 0 is the first. The paper has no factor.
    """

    def __init__(self, d_model, warmup_steps, factor=1.0):
        refuse_non_positive(d_model=d_model, warmup_steps=warmup_steps)
        if not factor > 0:
            raise ValueError(f"factor must be positive, got {factor}")
        self.d_model, self.warmup_steps, self.factor = d_model, warmup_steps, factor

    def __call__(self, step):
        step = ops.cast(step, "float32") + 1
        rising = step * self.warmup_steps**-1.5
        return self.factor * self.d_model**-0.5 * ops.minimum(step**-0.5, rising)

    def get_config(self):
        return {
            "d_model": self.d_model,
            "warmup_steps": self.warmup_steps,
            "factor": self.factor,
        }


def shift_right(targets):
    """Targets (batch, target) -> given and wanted tokens, (batch, target - 1) each.

    At each position the decoder is given the true token before the wanted one: teacher forcing.
    """
    if len(targets.shape) != 2 or targets.shape[1] < 2:
        raise ValueError(f"targets must be (batch, target >= 2), got shape {tuple(targets.shape)}")
    return targets[:, :-1], targets[:, 1:]


def smooth_labels(targets, vocab_size, smoothing):
    """Token ids (batch, target) -> probabilities (batch, target, vocab_size), float32.

    The true token gets 1 - smoothing, and smoothing is spread evenly over all, it included.
    """
    if not 0 <= smoothing < 1:
        raise ValueError(f"smoothing must be at least 0 and below 1, got {smoothing}")
    sharp = ops.one_hot(ops.cast(targets, "int32"), vocab_size)
    return (1 - smoothing) * sharp + smoothing / vocab_size


@keras.saving.register_keras_serializable(package="measured")
class MaskedCrossEntropy(keras.losses.Loss):
    """Mean over real tokens, in nats: targets (batch, target), logits (batch, target, vocab).

    One mean over all real tokens of the batch, so a long sequence counts more than a short one.
    A mean over sequences, or over padding too, is another number.
    """

    def __init__(self, smoothing=0.0, name="masked_cross_entropy", **kwargs):
        super().__init__(name=name, **kwargs)
        self.smoothing = smoothing

    def call(self, targets, logits):
        wanted = smooth_labels(targets, logits.shape[-1], self.smoothing)
        losses = -ops.sum(wanted * ops.log_softmax(logits), axis=-1)
        real = ops.cast(ops.not_equal(targets, PAD), losses.dtype)
        return ops.sum(losses * real) / ops.maximum(ops.sum(real), 1)

    def get_config(self):
        return {**super().get_config(), "smoothing": self.smoothing}


@keras.saving.register_keras_serializable(package="measured")
class MaskedAccuracy(keras.metrics.Metric):
    """Share of real tokens whose logit is the largest, over all batches since the last reset."""

    def __init__(self, name="accuracy", **kwargs):
        super().__init__(name=name, **kwargs)
        self.right = self.add_weight(name="right", initializer="zeros")
        self.real = self.add_weight(name="real", initializer="zeros")

    def update_state(self, targets, logits, sample_weight=None):
        if sample_weight is not None:
            raise ValueError("padding is what has no weight here: give no sample_weight")
        targets = ops.cast(targets, "int32")
        real = ops.not_equal(targets, PAD)
        right = ops.logical_and(real, ops.equal(ops.argmax(logits, axis=-1), targets))
        self.right.assign_add(ops.sum(ops.cast(right, self.dtype)))
        self.real.assign_add(ops.sum(ops.cast(real, self.dtype)))

    def result(self):
        return self.right / ops.maximum(self.real, 1)


def exact_match(predicted, targets):
    """Share of sequences right in every token: two (batch, target), padding included -> float."""
    predicted, targets = np.asarray(predicted), np.asarray(targets)
    if predicted.ndim != 2 or predicted.shape != targets.shape or not len(targets):
        raise ValueError(
            "predicted and targets must share one shape (batch >= 1, target), "
            f"got {predicted.shape} and {targets.shape}"
        )
    return float(np.all(predicted == targets, axis=1).mean())


def gradient_norms(num_layers, norm, seed, d_model=64, num_heads=4, batch=16, length=32):
    """Length of the loss's gradient in each layer before any training: -> float64 (num_layers,).

    The model is a causal stack of layers without positions and an output over 32 token ids; it
    is to predict random tokens. Layer 1 is next to the embedding. Each length is over all weights
    of its layer.
    """
    vocab_size = 32
    keras.utils.set_random_seed(seed)
    tokens = np.random.default_rng(seed).integers(1, vocab_size, (batch, length + 1))
    stack = Encoder(
        vocab_size,
        num_layers,
        d_model,
        num_heads,
        4 * d_model,
        dropout=0.0,
        norm=norm,
        positions=None,  # what all positions share would be learned first, and differs by seed
        causal=True,
        embeddings_initializer=keras.initializers.RandomNormal(stddev=d_model**-0.5),
    )
    output = keras.layers.Dense(vocab_size)
    given, wanted = shift_right(tokens)
    return gradient_lengths(
        stack.layers, lambda: MaskedCrossEntropy()(wanted, output(stack(given)))
    )


def gradient_lengths(layers, loss):
    """Length of the gradient of `loss()`, a scalar, over all weights of each layer: -> float64."""
    gradients = GRADIENTS[keras.backend.backend()](layers, loss)
    return np.array([_length(layer) for layer in gradients])


# keras.ops cannot differentiate, so each backend does it in its own way: the gradients of `loss()`
# by the weights of each layer, a list of lists. Layers may not be built before the loss is called.


def _gradients_of_tensorflow(layers, loss):
    import tensorflow as tf

    with tf.GradientTape() as tape:
        value = loss()
    return tape.gradient(value, [layer.trainable_weights for layer in layers])


def _gradients_of_torch(layers, loss):
    import torch

    value = loss()
    values = [[weight.value for weight in layer.trainable_weights] for layer in layers]
    return [torch.autograd.grad(value, of_layer, retain_graph=True) for of_layer in values]


def _gradients_of_jax(layers, loss):
    import jax

    loss()  # builds what is not built: inside the scope below, new weights would be lost
    weights = [layer.trainable_weights for layer in layers]

    def loss_of(values):
        pairs = zip(chain(*weights), chain(*values), strict=True)
        with keras.StatelessScope(state_mapping=pairs):
            return loss()

    return jax.grad(loss_of)([[weight.value for weight in layer] for layer in weights])


GRADIENTS = {
    "tensorflow": _gradients_of_tensorflow,
    "torch": _gradients_of_torch,
    "jax": _gradients_of_jax,
}


def _length(gradients):
    squares = [np.sum(np.square(ops.convert_to_numpy(part), dtype="float64")) for part in gradients]
    return float(np.sqrt(sum(squares)))
