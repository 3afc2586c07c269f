"""What dense attention costs in time and memory as the sequence grows, measured in fresh processes.

Times depend on the machine, so the book does not measure them when it is built:
`python -m measured.costs` writes `media/data/attention-cost.json`, and the book reads that. Time is
processor time of one thread, which other programs disturb less than the clock on the wall; peak
memory is read from Linux's `/proc`. Closed forms are in `measured.budgets`.
"""

import json
import math
import os
import platform
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

import numpy as np

DATA = Path("media/data/attention-cost.json")
WIDTH = 64
LENGTHS = tuple(2**power for power in range(6, 14))
# From here on the scores dwarf what a call costs anyway.
LARGE = 1024
ONE_THREAD = {
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}


def attention_inputs(length, width=WIDTH):
    """Query, key and value of one head, float32 tensors (length, width)."""
    from keras import ops  # only the processes that measure need TensorFlow

    rng = np.random.default_rng(length)
    return [
        ops.convert_to_tensor(rng.normal(size=(length, width)).astype("float32")) for _ in range(3)
    ]


def peak_growth(run):
    """Call `run`: -> bytes by which this process's resident memory rose at most. Linux only."""
    # 5 resets the high-water mark: see "clear_refs" in Linux's proc(5).
    Path("/proc/self/clear_refs").write_text("5")
    before = _resident("VmRSS")
    run()
    return _resident("VmHWM") - before


def shortest_call(run, seconds=0.5, calls=5):
    """Call `run` for that long and that often at least: -> processor seconds of the shortest call.

    The shortest is the one that other programs disturbed least.
    """
    shortest, start, done = math.inf, time.process_time(), 0
    while done < calls or time.process_time() - start < seconds:
        begin = time.process_time()
        run()
        shortest = min(shortest, time.process_time() - begin)
        done += 1
    return shortest


def measure_here(length, width=WIDTH):
    """Attention of one head in this process: -> {"seconds": …, "peak_bytes": …}."""
    from measured.attention import scaled_dot_product_attention

    small, large = attention_inputs(16, width), attention_inputs(length, width)
    scaled_dot_product_attention(*small)  # the first call of all sets up threads and kernels

    def run():
        np.asarray(scaled_dot_product_attention(*large)[0])

    # The order matters: once memory was used and freed, the process may keep it.
    peak = peak_growth(run)
    return {"seconds": shortest_call(run), "peak_bytes": peak}


def measure(lengths=LENGTHS, max_rounds=12, settled=0.01):
    """Measure each length in a process of its own, round after round: -> what the file holds.

    Of all rounds the smallest time and peak of each length count. The rounds end once the last
    two of them moved neither slope by more than `settled`.
    """
    best = {length: {"seconds": math.inf, "peak_bytes": math.inf} for length in lengths}
    history = []
    for number in range(1, max_rounds + 1):
        for length in lengths:
            found = _measure_apart(length)
            best[length] = {key: min(best[length][key], found[key]) for key in found}
        result = _as_table(lengths, best, number)
        history.append([slope_of(result, key) for key in ("seconds", "peak_bytes")])
        last = np.array(history[-3:])
        print(f"round {number}: slopes {last[-1].round(3).tolist()}", file=sys.stderr)
        if len(last) == 3 and np.ptp(last, axis=0).max() <= settled:
            return result
    raise RuntimeError(f"the slopes did not settle within {max_rounds} rounds: {history[-3:]}")


def log_log_slope(sizes, values, at_least=0):
    """Slope of the straight line fitted to log(values) over log(sizes), for sizes >= at_least.

    A cost that grows as size^k has slope k.
    """
    sizes, values = np.asarray(sizes, dtype=float), np.asarray(values, dtype=float)
    if sizes.shape != values.shape or sizes.ndim != 1:
        raise ValueError(f"need one value a size, got shapes {sizes.shape} and {values.shape}")
    kept = sizes >= at_least
    if len(set(sizes[kept])) < 2:
        raise ValueError(f"need two sizes of at least {at_least}, got {sizes[kept].tolist()}")
    if min(sizes[kept].min(), values[kept].min()) <= 0:
        raise ValueError("sizes and values must be positive to have a logarithm")
    return float(np.polyfit(np.log(sizes[kept]), np.log(values[kept]), 1)[0])


def slope_of(costs, key, at_least=LARGE):
    """Slope of costs["seconds"] or costs["peak_bytes"] over the large lengths."""
    return log_log_slope(costs["lengths"], costs[key], at_least)


def read_costs(path=None):
    """What `python -m measured.costs` wrote: -> dict with "lengths", "seconds", "peak_bytes" …"""
    return json.loads((find_data(DATA) if path is None else Path(path)).read_text(encoding="utf-8"))


def find_data(data):
    """A committed measurement, by its path in the project, from any folder inside the book's."""
    starts = [os.environ.get("QUARTO_PROJECT_ROOT"), Path.cwd(), Path(__file__).resolve().parent]
    for start in map(Path, filter(None, starts)):
        for folder in (start, *start.parents):
            if (folder / data).is_file():
                return folder / data
    raise FileNotFoundError(
        f"{data.as_posix()} not found: run this inside the book's folder, "
        "or name that folder in QUARTO_PROJECT_ROOT"
    )


def _resident(field):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return 1024 * int(line.split()[1])
    raise OSError(f"/proc/self/status has no {field}")


def _measure_apart(length):
    command = [sys.executable, "-m", "measured.costs", "--here", str(length)]
    environment = {**os.environ, **ONE_THREAD}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return json.loads(done.stdout)


def _as_table(lengths, best, rounds):
    return {
        "what": f"scaled dot-product attention, one head of width {WIDTH}, float32, one thread",
        **describe_machine(),
        "rounds": rounds,
        "lengths": list(lengths),
        "seconds": [float(f"{best[length]['seconds']:.3g}") for length in lengths],
        "peak_bytes": [best[length]["peak_bytes"] for length in lengths],
    }


def describe_machine():
    """What a time depends on, in words: no name, no place."""
    return {
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}",
        "libraries": {"keras": metadata.version("keras"), "tensorflow": _tensorflow_version()},
    }


def _tensorflow_version():
    for name in ("tensorflow-cpu", "tensorflow"):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return "none"


def main(arguments):
    """`--here LENGTH` prints the costs of one length; a path, or nothing, says where to write."""
    if arguments[:1] == ["--here"]:
        print(json.dumps(measure_here(int(arguments[1]))))
        return
    path = Path(arguments[0]) if arguments else DATA
    text = json.dumps(measure(), indent=2) + "\n"
    path.write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
