"""What a key/value cache saves in time when a Transformer decodes, measured once.

Times depend on the machine, so the book does not measure them when it is built:
`python -m measured.decoding_costs` writes `media/data/decoding-cost.json`, and the book reads that.
Time is processor time of one thread, the shortest of several calls. The saving in multiply-adds,
which no machine changes, is in `measured.budgets.decoding_multiply_adds`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from measured.costs import ONE_THREAD, describe_machine, find_data, shortest_call

DATA = Path("media/data/decoding-cost.json")
LENGTHS = (16, 32, 64, 128, 256)
BATCH = 8
SIZE = {
    "source_vocab_size": 50,
    "target_vocab_size": 50,
    "num_layers": 2,
    "d_model": 128,
    "num_heads": 4,
    "d_ff": 512,
}
START, END = 1, 2


def endless_model(seed=0):
    """An untrained `Transformer` of SIZE that never says END, so that all of its texts are full."""
    import keras  # only the process that measures needs TensorFlow

    from measured.transformer import Transformer

    keras.utils.set_random_seed(seed)
    model = Transformer(**SIZE, dropout=0)
    model.build(((None, None), (None, None)))
    bias = model.output_projection.bias
    bias.assign(np.where(np.arange(bias.shape[0]) == END, -1e9, 0.0))
    return model


def measure_here(length):
    """Decode `length` tokens both ways: -> {"cached": s, "uncached": s, "same": bool}."""
    from measured.decoding import GreedyDecoder

    model = endless_model()
    source = np.random.default_rng(0).integers(3, 50, size=(BATCH, length))
    decoders = [GreedyDecoder(model, START, END, length, use_cache) for use_cache in (True, False)]
    tokens = [decoder.decode(source) for decoder in decoders]  # and trace, before the clock starts
    cached, uncached = (
        shortest_call(lambda decoder=decoder: decoder.decode(source), calls=3)
        for decoder in decoders
    )
    full = bool(np.all(tokens[0] > 0))
    same = full and bool(np.array_equal(*tokens))
    return {"cached": cached, "uncached": uncached, "same": same}


def measure(lengths=LENGTHS):
    """The table that the book reads, one fresh single-threaded process a length."""
    found = [_measure_apart(length) for length in lengths]
    if not all(one["same"] for one in found):
        raise RuntimeError("the two ways gave different tokens, or a text ended early")
    return {
        "what": f"greedy decoding, batch of {BATCH}, source as long as target, one thread; "
        "without a cache each step computes all positions up to the full length",
        "size": SIZE,
        **describe_machine(),
        "lengths": list(lengths),
        "cached_seconds": [float(f"{one['cached']:.3g}") for one in found],
        "uncached_seconds": [float(f"{one['uncached']:.3g}") for one in found],
    }


def read_decoding_costs(path=None):
    """What was measured: -> dict with "lengths", "cached_seconds", "uncached_seconds" …"""
    path = find_data(DATA) if path is None else Path(path)
    return json.loads(path.read_text(encoding="utf-8"))


def _measure_apart(length):
    command = [sys.executable, "-m", "measured.decoding_costs", "--here", str(length)]
    environment = {**os.environ, **ONE_THREAD}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return json.loads(done.stdout)


def main(arguments):
    """`--here LENGTH` prints the costs of one length; a path, or nothing, says where to write."""
    if arguments[:1] == ["--here"]:
        print(json.dumps(measure_here(int(arguments[1]))))
        return
    path = Path(arguments[0]) if arguments else DATA
    path.write_text(json.dumps(measure(), indent=2) + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
