import json
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.strategies import floats

from measured import costs

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_slope_of_a_square_and_of_a_line_by_hand():
    assert costs.log_log_slope([1, 10, 100], [3, 300, 30_000]) == pytest.approx(2, abs=1e-12)
    assert costs.log_log_slope([1, 10, 100], [5, 50, 500]) == pytest.approx(1, abs=1e-12)


def test_slope_is_the_least_squares_one_of_three_points():
    # logs base 2 are (0, 0), (1, 3), (2, 3): slope = sum((x - 1)(y - 2)) / 2 = (2 + 1) / 2
    assert costs.log_log_slope([1, 2, 4], [1, 8, 8]) == pytest.approx(1.5, abs=1e-12)


@given(power=floats(0.5, 3), unit=floats(0.01, 100))
@settings(deadline=None)
def test_slope_is_the_power_whatever_the_unit(power, unit):
    sizes = np.array([3, 7, 31, 101])
    assert costs.log_log_slope(sizes, unit * sizes**power) == pytest.approx(power, abs=1e-9)


def test_slope_leaves_out_what_is_small():
    assert costs.log_log_slope([1, 2, 8, 16], [9, 9, 64, 256], at_least=8) == pytest.approx(2)


def test_slope_refuses_what_has_none():
    with pytest.raises(ValueError, match=r"need two sizes of at least 8, got \[16.0\]"):
        costs.log_log_slope([4, 16], [1, 2], at_least=8)
    with pytest.raises(ValueError, match=r"one value a size, got shapes \(2,\) and \(3,\)"):
        costs.log_log_slope([1, 2], [1, 2, 3])
    with pytest.raises(ValueError, match="must be positive"):
        costs.log_log_slope([1, 2], [0, 3])


@linux_only
def test_peak_growth_sees_memory_that_is_gone_afterwards():
    # In a process of its own: what earlier tests give back meanwhile would count against it.
    code = (
        "import numpy as np; from measured import costs; "
        "print(costs.peak_growth(lambda: np.ones(5_000_000).sum()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    growth = int(done.stdout)
    assert 39e6 < growth < 45e6  # 5 million float64; the kernel counts pages a little late


@linux_only
def test_peak_growth_counts_what_exists_at_once_not_the_sum():
    def one_after_the_other():
        for _ in range(3):
            np.ones(5_000_000).sum()

    assert costs.peak_growth(one_after_the_other) < 45e6


def test_shortest_call_is_the_shortest_and_not_the_first_or_last():
    pauses = iter([0.05, 0.05, 0.002, 0.05])

    def run():
        until = time.process_time() + next(pauses)
        while time.process_time() < until:
            pass

    assert 0.002 <= costs.shortest_call(run, seconds=0, calls=4) < 0.04


def test_inputs_are_one_head_and_the_same_each_time():
    first, again = costs.attention_inputs(7, width=3), costs.attention_inputs(7, width=3)
    assert [tuple(array.shape) for array in first] == [(7, 3)] * 3
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first[0], first[1])


@linux_only
def test_attention_of_a_thousand_tokens_holds_a_few_matrices_at_once():
    found = costs._measure_apart(1000)  # here, earlier tests have had their peaks
    matrices = found["peak_bytes"] / (4 * 1000**2)
    assert 1 < matrices < 8  # scores, scaled, exponentials, weights, and what the allocator adds
    assert 0 < found["seconds"] < 5


def test_measure_keeps_the_best_of_all_rounds_and_stops_when_settled(monkeypatch):
    slowness = {1024: iter([3.0, 1.0, 2.0, 1.5]), 2048: iter([5.0, 1.0, 2.0, 1.5])}

    def pretend(length):
        return {"seconds": next(slowness[length]) * length**2, "peak_bytes": 16 * length**2}

    monkeypatch.setattr(costs, "_measure_apart", pretend)
    table = costs.measure(lengths=(1024, 2048))
    assert table["rounds"] == 4  # the slope jumps in round 2; rounds 3 and 4 leave it alone
    assert table["seconds"] == [float(f"{1024**2:.3g}"), float(f"{2048**2:.3g}")]
    assert costs.slope_of(table, "seconds") == pytest.approx(2, abs=5e-3)  # three digits are kept


def test_measure_gives_up_when_nothing_settles(monkeypatch):
    factor = iter(range(100, 0, -1))

    def drifting(length):
        return {"seconds": next(factor) * length, "peak_bytes": length}

    monkeypatch.setattr(costs, "_measure_apart", drifting)
    with pytest.raises(RuntimeError, match="did not settle within 4 rounds"):
        costs.measure(lengths=(1024, 2048), max_rounds=4, settled=1e-9)


def test_the_committed_measurement_is_found_and_complete(monkeypatch, tmp_path):
    found = costs.read_costs()
    assert found["lengths"] == list(costs.LENGTHS)
    assert len(found["seconds"]) == len(found["peak_bytes"]) == len(costs.LENGTHS)
    assert {"what", "machine", "libraries", "rounds"} <= set(found)
    text = json.dumps(found)
    assert "/" not in text and "\\" not in text  # no path of the machine
    # Two float32 matrices of L x L must exist at once, if only for a moment: scores and weights.
    largest = found["lengths"][-1]
    assert found["peak_bytes"][-1] > 2 * 4 * largest**2

    monkeypatch.setenv("QUARTO_PROJECT_ROOT", str(tmp_path))
    (tmp_path / costs.DATA).parent.mkdir(parents=True)
    (tmp_path / costs.DATA).write_text('{"lengths": [1]}', encoding="utf-8")
    assert costs.read_costs() == {"lengths": [1]}


def test_a_missing_measurement_says_where_to_be(monkeypatch, tmp_path):
    monkeypatch.delenv("QUARTO_PROJECT_ROOT", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(costs, "__file__", str(tmp_path / "costs.py"))
    with pytest.raises(FileNotFoundError, match="not found: run this inside"):
        costs.find_data(costs.DATA)
