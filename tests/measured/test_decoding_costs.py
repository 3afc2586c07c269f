"""The measurement decodes full texts, both ways alike; the committed file is what it writes."""

import json

import numpy as np
import pytest

from measured import decoding_costs


def test_the_endless_model_says_as_many_tokens_as_there_is_room_for():
    found = decoding_costs._measure_apart(5)
    assert found["same"] is True
    assert found["cached"] > 0
    assert found["uncached"] > 0


def test_measure_refuses_two_ways_that_differ(monkeypatch):
    apart = {"cached": 0.1, "uncached": 0.2, "same": False}
    monkeypatch.setattr(decoding_costs, "_measure_apart", lambda length: apart)
    with pytest.raises(RuntimeError, match="the two ways gave different tokens"):
        decoding_costs.measure()


def test_the_committed_costs_are_of_what_the_module_measures():
    costs = decoding_costs.read_decoding_costs()
    assert tuple(costs["lengths"]) == decoding_costs.LENGTHS
    assert costs["size"] == decoding_costs.SIZE
    ratios = np.divide(costs["uncached_seconds"], costs["cached_seconds"])
    assert np.all(np.diff(ratios) > 0)  # each step without a cache repeats more and more


def test_a_path_says_where_to_write(tmp_path, monkeypatch):
    monkeypatch.setattr(decoding_costs, "measure", lambda: {"lengths": [3]})
    decoding_costs.main([str(tmp_path / "costs.json")])
    assert json.loads((tmp_path / "costs.json").read_text()) == {"lengths": [3]}
