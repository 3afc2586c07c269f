"""Values of numbers: what is accepted, how far two are apart, how they are printed."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.values import deviation, is_value, is_whole, plain, shape, show

timeless = settings(deadline=None)  # a busy machine is not a failure


class Tensor:
    """What a TensorFlow tensor offers: `numpy()`, which may give an array or a scalar."""

    def __init__(self, content):
        self.content = content

    def numpy(self):
        return self.content


class Detached:
    def numpy(self):
        return np.array([1.5])


class TorchTensor:
    """A PyTorch tensor with a gradient refuses `numpy()` until it is detached."""

    def detach(self):
        return Detached()

    def numpy(self):
        raise RuntimeError("requires grad")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (3, 3),
        (True, True),
        ("text", "text"),
        ((2, 100, 100), [2, 100, 100]),
        (np.float32(0.5), 0.5),
        (np.int64(7), 7),
        (np.bool_(True), True),
        (np.str_("text"), "text"),
        (np.array(3.0), 3.0),
        (np.arange(6).reshape(2, 3), [[0, 1, 2], [3, 4, 5]]),
        (Tensor(np.array([1.5, 2.5])), [1.5, 2.5]),
        (Tensor(np.float32(2)), 2.0),
        (TorchTensor(), [1.5]),
        ([np.float32(0.5), Tensor(np.array(2))], [0.5, 2]),
        ([], []),
    ],
)
def test_arrays_tensors_and_scalars_become_plain_python(given, expected):
    found = plain(given)
    assert found == expected
    assert type(found) is type(expected)
    if isinstance(expected, list) and expected:
        assert type(found[0]) is type(expected[0])


@pytest.mark.parametrize("given", [None, object(), {"a": 1}, [[1, 2], [3]], [1, [2]], 1j, [None]])
def test_what_is_no_number_is_refused(given):
    with pytest.raises(
        TypeError, match="a checked value must be a number, a text, true, false, or"
    ):
        plain(given)


def test_shapes_by_hand():
    assert shape(1.0) == ()
    assert shape([[1, 2], [3, 4], [5, 6]]) == (3, 2)
    assert shape([]) == (0,)
    assert shape([[1], [2, 3]]) is None
    assert not is_value([[1], 2])


@pytest.mark.parametrize(
    ("expected", "got", "apart"),
    [
        (3, 3.25, 0.25),
        ([1, 2, 3], [1, 2.5, 3], 0.5),
        ([[1, 2]], [[1, -2]], 4),
        (1, True, math.inf),
        (False, 0, math.inf),
        (True, True, 0),
        ("a", "A", math.inf),
        ("a", "a", 0),
        (1.0, [1.0], math.inf),
        ([1, 2], [[1, 2]], math.inf),
        ([1, 2], [1, 2, 3], math.inf),
        (math.nan, math.nan, 0),
        (math.nan, 1.0, math.inf),
        ([1.0, math.nan], [1.0, math.nan], 0),
        (math.inf, math.inf, 0),
        (math.inf, -math.inf, math.inf),
        (10**30, 10**30, 0),
        ([], [], 0),
    ],
)
def test_how_far_two_values_are_apart(expected, got, apart):
    assert deviation(expected, got) == apart


@timeless
@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(-(10**15), 10**15))
def test_deviation_is_symmetric_and_zero_only_for_equals(one, other):
    assert deviation(one, other) == deviation(other, one)
    assert (deviation(one, other) == 0) == (one == other)


@pytest.mark.parametrize(
    ("value", "form", "unit", "text"),
    [
        (7.0710678, ".4f", "", "7.0711"),
        (31102, ",d", "", "31,102"),
        (31102.0, ",d", "", "31,102"),
        (31101.6, ",d", "", "31,102"),
        (0.1234, ".1%", "", "12.3%"),
        (3.6e-7, ".1e", "", "3.6×10⁻⁷"),
        (-2.5e21, ".1e", "", "−2.5×10²¹"),
        (1e-7, ".3g", "", "1×10⁻⁷"),
        (-0.00001, ".2f", "", "0.00"),
        (-0.00001, ".1%", "", "0.0%"),
        (-0.5, ".1f", "", "−0.5"),
        ([1 / 6, 1 / 3, 0.5], ".3f", "", "[0.167, 0.333, 0.500]"),
        ([[1, -2], [3, 4]], "d", "", "[[1, −2], [3, 4]]"),
        ([2, 100, 100], "shape", "", "(2, 100, 100)"),
        ([5], "shape", "", "(5,)"),
        (True, "yes|no", "", "yes"),
        (False, "yes|no", "", "no"),
        (False, "", "", "false"),
        ([True, False], "1|0", "", "[1, 0]"),
        ("any text", "", "", "any text"),
        (95.37, ".1f", "MB", "95.4\u00a0MB"),
        (math.nan, ".3f", "", "NaN"),
        (-math.inf, ".3f", "", "−∞"),
        ([0.5, math.nan], ".1f", "", "[0.5, NaN]"),
        (1234567, "", "", "1234567"),
        (-1e9, ".0e", "", "−1×10⁹"),
    ],
)
def test_numbers_as_prose_prints_them(value, form, unit, text):
    assert show(value, form, unit) == text


@pytest.mark.parametrize(
    ("value", "form", "message"),
    [
        (True, "yes", "need the form 'text if true|text if false'"),
        (0.5, "shape", "Invalid format specifier"),
        (0.5, "q", "Unknown format code"),
    ],
)
def test_a_format_that_does_not_fit_is_an_error(value, form, message):
    with pytest.raises(ValueError, match=message):
        show(value, form)


def test_whole_numbers():
    assert is_whole(3) and is_whole(3.0) and is_whole([1, [2.0]])
    assert not is_whole(3.5) and not is_whole([1, 2.5])


def test_a_tensor_shape_is_a_list_of_its_dimensions():
    class TensorShape:  # TensorFlow's, as far as the ledger sees it
        def as_list(self):
            return [2, 3]

    assert plain(TensorShape()) == [2, 3]
