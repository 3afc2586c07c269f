"""Does an output depend on something that its mask hides? Change it and compare every bit.

A mask that works multiplies what it hides by exactly 0, so "almost unchanged" is already a leak,
and no tolerance is needed. Both detectors need a deterministic function of concrete arrays.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Leak:
    """The first output that moved although what changed was hidden from it."""

    batch: int
    position: int  # of the output that moved
    changed: tuple[int, ...]  # positions of the inputs that were changed
    by: float  # largest absolute difference within that output

    def __str__(self):
        inputs = ", ".join(map(str, self.changed))
        return (
            f"output (batch {self.batch}, position {self.position}) moved by {self.by:.3g} "
            f"when input {inputs} changed"
        )


def future_leak(model, inputs, other):
    """Change one input after another; no earlier output may move. -> the first Leak, or None.

    The model maps (batch, sequence, ...) to (batch, sequence, ...). `inputs` and `other` have one
    shape and differ everywhere: `other[:, t]` replaces `inputs[:, t]`, for all t from 1 on.
    """
    inputs, other, before = _baseline(model, inputs, other)
    for changed in range(1, inputs.shape[1]):
        trial = inputs.copy()
        trial[:, changed] = other[:, changed]
        leak = _first_moved(before[:, :changed], _run(model, trial)[:, :changed], (changed,))
        if leak:
            return leak
    return None


def padding_leak(model, inputs, other, real):
    """Change what lies under the padding; no real output may move. -> the first Leak, or None.

    As in `future_leak`; `real` (batch, sequence) is True at the positions that are no padding.
    The model must know its mask by other means than these inputs: they are what changes.
    """
    inputs, other, before = _baseline(model, inputs, other)
    real = np.asarray(real, dtype=bool)
    if real.shape != inputs.shape[:2]:
        raise ValueError(f"real must be {inputs.shape[:2]} as the inputs, got shape {real.shape}")
    if real.all():
        raise ValueError("no position is padding: there is nothing to change")
    hidden = ~real.reshape(real.shape + (1,) * (inputs.ndim - 2))
    after = _run(model, np.where(hidden, other, inputs))
    # An output that is padding itself may move: give it its old content before comparing.
    outputs = real.reshape(real.shape + (1,) * (before.ndim - 2))
    leak = _first_moved(before, np.where(outputs, after, before), ())
    if leak is None:
        return None
    changed = tuple(np.flatnonzero(~real[leak.batch]).tolist())
    return Leak(leak.batch, leak.position, changed, leak.by)


def _baseline(model, inputs, other):
    """Arrays, and the output to compare with; refuses a comparison that could not find a leak."""
    inputs, other = np.asarray(inputs), np.asarray(other)
    if inputs.ndim < 2 or inputs.shape != other.shape:
        raise ValueError(
            f"inputs and other must share one shape (batch, sequence, ...), "
            f"got {inputs.shape} and {other.shape}"
        )
    same = np.all((inputs == other).reshape(*inputs.shape[:2], -1), axis=-1)
    if same.any():
        where = np.argwhere(same)[0].tolist()
        raise ValueError(f"inputs and other agree at (batch, position) {where}: nothing changes")
    before = _run(model, inputs)
    if before.shape[:2] != inputs.shape[:2]:
        raise ValueError(
            f"the model must return (batch, sequence, ...) = {inputs.shape[:2]}, "
            f"got shape {before.shape}"
        )
    if _moved(before, _run(model, inputs)).any():
        raise ValueError("two calls on the same inputs differ: switch dropout off")
    if not _moved(before, _run(model, other)).any():
        raise ValueError("the output depends on no input: no leak could be seen")
    return inputs, other, before


def _run(model, inputs):
    return np.array(model(inputs))


def _moved(before, after):
    """Where two outputs differ in value; NaN equals NaN, so that a blind query is no leak."""
    return (before != after) & ~((before != before) & (after != after))


def _first_moved(before, after, changed):
    moved = _moved(before, after).reshape(*before.shape[:2], -1)
    where = np.argwhere(moved.any(axis=-1))
    if not len(where):
        return None
    batch, position = where[0].tolist()
    difference = np.abs(after[batch, position] - before[batch, position])
    return Leak(batch, position, changed, float(np.nanmax(difference)))
