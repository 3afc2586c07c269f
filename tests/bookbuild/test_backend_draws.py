"""What a backend is made to draw is what TensorFlow draws from the same seeds.

Tried on TensorFlow itself, whose own draws are known there: no other backend is installed.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CODE = Path(__file__).resolve().parents[2] / "code"
# Sizes are different primes.
DRAWS = """
import json, sys
if "with" in sys.argv:
    from bookbuild import backend_draws
import keras, numpy as np
from keras import layers, ops, random
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter

keras.utils.set_random_seed(7)
found = {
    "normal": random.normal((3, 5), 1.0, 0.5, seed=1),
    "uniform": random.uniform((7,), -1, 3, seed=2),
    "truncated": random.truncated_normal((3, 2), seed=3),
    "integers": random.randint((11,), 5, 90, seed=4),
    "shuffled": random.shuffle(ops.arange(13), seed=5),
    "classes": random.categorical(ops.zeros((2, 5)), 7, seed=6),
    "large seed": random.uniform((3,), seed=2**31 + 11),
}
dense = layers.Dense(3)
dense.build((None, 5))
found["initial weights"] = dense.kernel
dropout = layers.Dropout(0.4)
ones = ops.ones((5, 7))
found["dropout"] = dropout(ones, training=True)
found["dropout again"] = dropout(2 * ones, training=True)
found["dropout of columns"] = random.dropout(ones, 0.5, (1, None), seed=9)
found["no dropout"] = random.dropout(ones, 0.0, seed=9)
adapter = ArrayDataAdapter(np.arange(17), np.zeros(17), batch_size=5, shuffle=True)
own = None if "with" in sys.argv else adapter.get_tf_dataset()
for epoch in ("batches", "batches of a second epoch"):
    batches = own or adapter.get_jax_iterator()
    found[epoch] = np.concatenate([ops.convert_to_numpy(x) for x, _ in batches])
print(json.dumps({name: ops.convert_to_numpy(value).tolist() for name, value in found.items()}))
"""


def drawn(*arguments):
    variables = {"KERAS_BACKEND": "tensorflow", "PYTHONPATH": str(CODE)}
    done = subprocess.run(
        [sys.executable, "-c", DRAWS, *arguments],
        capture_output=True, text=True, env={**os.environ, **variables},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_everything_is_drawn_as_tensorflow_draws_it():
    own, given = drawn(), drawn("with")
    assert given == own
    assert sorted(own["batches"]) == list(range(17)) != own["batches"]
    kept = {value for row in own["dropout"] for value in row}
    assert len(kept) == 2 and max(kept) == pytest.approx(1 / 0.6)
    assert own["dropout"] != own["dropout again"]
