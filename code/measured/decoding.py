"""Greedy decoding: the most likely token, again and again, with a key/value cache or without.

The whole loop is one compiled call of `keras.Model.predict_on_batch`: it is traced once for each
shape of the source, not once for each token. All shapes in it are fixed, so no backend has to
retrace: the target is a buffer of padding that fills up, and the masks hide what is still empty.
"""

import keras
import numpy as np
from keras import ops

from measured.layers import write_at
from measured.masks import padding_mask, refuse_blind_queries
from measured.multihead import refuse_non_positive


class GreedyDecoder(keras.Model):
    """A compiled greedy loop around a model: source (batch, source) -> tokens (batch, max_length).

    Keep one to decode several times; `greedy_decode` makes one for a single use. Later training
    of the model is seen. Padding is never chosen, since no loss ever taught the model about it.

    Args:
        model: A `measured.transformer.Transformer`.
        start_id, end_id: Token ids before the first token, and of the last.
        max_length: Most tokens to give a sequence, the end included.
        use_cache: True computes the keys and values of each token once. False runs the decoder
            over all `max_length` positions for each token: same tokens, more work.

    Raises:
        ValueError: For ids outside 1 … target_vocab_size - 1, a `max_length` below 1 or above the
            decoder's table of positions, a source that is no matrix of integers or has a row of
            nothing but padding.
    """

    def __init__(self, model, start_id, end_id, max_length, use_cache=True, **kwargs):
        super().__init__(**kwargs)
        refuse_non_positive(max_length=max_length)
        embedding = model.decoder.embedding
        for name, token in (("start_id", start_id), ("end_id", end_id)):
            if not 0 < token < embedding.vocab_size:
                raise ValueError(
                    f"{name} must be in 1 … {embedding.vocab_size - 1} (0 is padding), got {token}"
                )
        if embedding.positions in ("sinusoidal", "learned") and max_length > embedding.max_length:
            raise ValueError(
                f"max_length {max_length} is longer than the decoder's table of "
                f"{embedding.max_length} {embedding.positions} positions"
            )
        if not model.built:
            model.build(((None, None), (None, None)))
        self.model, self.use_cache = model, use_cache
        self.start_id, self.end_id, self.max_length = start_id, end_id, max_length

    def decode(self, source, batch_size=256):
        """Source (batch, source), integer -> tokens (batch, max_length), int32, 0 after the end."""
        source = np.asarray(source)
        if source.ndim != 2 or not np.issubdtype(source.dtype, np.integer):
            raise ValueError(
                f"source must be (batch, source) integers, got {source.dtype} {source.shape}"
            )
        refuse_blind_queries(padding_mask(source))
        batches = range(0, len(source), batch_size)
        tokens = [self.predict_on_batch(source[first : first + batch_size]) for first in batches]
        return np.concatenate(tokens)

    def call(self, source):
        encoded = self.model.encoder(source, training=False)
        batch = ops.shape(source)[0]
        # Column 0 is what the decoder is given first; what it says goes into the columns after.
        empty = ops.zeros((batch, self.max_length + 1), dtype="int32")
        tokens = write_at(0, empty, self.start_id, axis=1)
        stepper = self._cached if self.use_cache else self._whole
        step, caches = stepper(source, encoded)

        def add_token(position, tokens, going, caches):
            states, caches = step(tokens[:, :-1], position, caches)
            likeliest = 1 + ops.argmax(self.model.logits(states)[:, 0, 1:], axis=-1)
            chosen = ops.where(going, ops.cast(likeliest, "int32"), 0)
            tokens = write_at(position + 1, tokens, chosen[:, None], axis=1)
            return position + 1, tokens, ops.logical_and(going, chosen != self.end_id), caches

        start = (ops.convert_to_tensor(0, "int32"), tokens, ops.ones((batch,), "bool"), caches)
        _, tokens, _, _ = ops.while_loop(
            lambda position, tokens, going, caches: ops.any(going),
            add_token,
            start,
            maximum_iterations=self.max_length,
        )
        return tokens[:, 1:]

    def _cached(self, source, encoded):
        """-> step(tokens, position, caches) giving states (batch, 1, d_model), empty caches."""
        hidden = padding_mask(source)
        caches, memories = self.model.decoder.start_caches(encoded, self.max_length)

        def step(tokens, position, caches):
            return self.model.decoder.step(
                ops.take(tokens, position[None], axis=1),
                position,
                caches,
                memories,
                look_ahead_mask=padding_mask(tokens),  # what is still empty is padding
                padding_mask=hidden,
            )

        return step, caches

    def _whole(self, source, encoded):
        """The same without a cache: all positions again, and of these only one is kept."""

        def step(tokens, position, caches):
            states = self.model.decoder(tokens, encoded, source, training=False)
            return ops.take(states, position[None], axis=1), caches

        return step, ()


def greedy_decode(model, source, start_id, end_id, max_length, use_cache=True, batch_size=256):
    """Source (batch, source), integer -> tokens (batch, max_length), int32, 0 after the end.

    Arguments: see `GreedyDecoder`, which this makes and compiles anew.
    """
    decoder = GreedyDecoder(model, start_id, end_id, max_length, use_cache)
    return decoder.decode(source, batch_size)
