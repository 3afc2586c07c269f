import numpy as np
import pytest

from measured.ratio import follow_ratio, length_ratio, reader


def test_ratio_of_two_rows_by_hand():
    # Lengths 5 and 1, times √2, over √(2/2): a mean of 3 times √2.
    assert length_ratio([[3.0, 4.0], [0.0, 1.0]], 2) == pytest.approx(3 * np.sqrt(2))


def test_uniform_entries_follow_the_closed_form():
    table = np.random.default_rng(0).uniform(-0.05, 0.05, (2000, 96))
    # √(2d/3)·0.05 is the root mean square; a mean of lengths lies 0.2 % below it at this width.
    assert length_ratio(table, 96) == pytest.approx(0.05 * np.sqrt(2 * 96 / 3), rel=0.005)


def test_a_table_of_another_width_is_refused():
    with pytest.raises(ValueError, match=r"table must be \(tokens, 7\), got shape \(3, 5\)"):
        length_ratio(np.ones((3, 5)), 7)


def test_a_run_starts_afresh_in_a_model_that_has_learned():
    model = reader()
    ratios, accuracies = follow_ratio(model, 0.1, seed=3, notes=2)
    assert ratios.shape == (3,) and accuracies.shape == (2,)
    assert ratios[0] == pytest.approx(np.sqrt(2), rel=0.02)  # entries of variance 1/d
    assert len(set(ratios)) == 3
    assert 0 < accuracies[0] < 0.6  # four classes, 25 steps: hardly above one in four
    again = follow_ratio(model, 0.1, seed=3, notes=2)
    np.testing.assert_array_equal(again[0], ratios)
    np.testing.assert_array_equal(again[1], accuracies)


def test_accuracy_is_that_since_the_last_note():
    _, accuracies = follow_ratio(reader(), None, seed=0, notes=4)
    # Had the metric gone on counting, the slow start would hold the last value near 0.6.
    assert accuracies[-1] > 0.8
