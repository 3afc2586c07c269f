import logging
import warnings

import keras
import numpy as np
import pytest
import tf_keras

from measured.attention import scaled_dot_product_attention
from measured.porting import Heard, compare, heard_table, listen, plain_attention


def warn():
    warnings.warn("Use `that`. It is new.", stacklevel=1)
    return 7


def test_a_quiet_call_gives_its_value_and_nothing_else():
    assert listen(lambda: 7) == Heard(7)
    assert listen(lambda: 7).how == "nothing"
    assert listen(lambda: 7).sentence == ""


def test_a_warning_is_noted_and_the_value_kept():
    heard = listen(warn)
    assert (heard.value, heard.how, heard.sentence) == (7, "warning", "Use that.")


def test_what_is_said_to_the_library_alone_is_not_noted():
    def warn():
        warnings.warn("an old way", DeprecationWarning, stacklevel=1)
        warnings.warn("an old name", FutureWarning, stacklevel=1)

    assert listen(warn).warnings == ("an old name",)


def test_an_error_is_noted_with_its_kind_on_one_line_and_without_colours():
    def fail():
        raise ValueError('in A.call().\n\n\x1b[1mOnly "tensors"\x1b[0m')

    assert listen(fail).error == "ValueError: in A.call(). Only tensors"


@pytest.mark.parametrize("end", [": filepath=/data/here.", ". Received: /data/here.", ".\nMore."])
def test_the_first_sentence_leaves_out_what_was_received(end):
    def fail():
        raise ValueError(f"Not a file{end}")

    assert listen(fail).sentence.rstrip(".") == "ValueError: Not a file"


def test_a_log_line_is_noted_and_kept_from_the_screen(capfd):
    logger = logging.getLogger("absl")
    before = logger.handlers
    heard = listen(lambda: logger.warning("late"))
    assert (heard.how, heard.logs, logger.handlers) == ("log", ("late",), before)
    assert capfd.readouterr() == ("", "")


def test_an_interrupt_is_no_answer():
    def interrupt():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        listen(interrupt)


def test_each_case_meets_each_library_in_order():
    results = compare({"twice": lambda n: 2 * n, "thrice": lambda n: 3 * n}, (1, 10))
    assert [[heard.value for heard in row] for row in results.values()] == [[2, 20], [3, 30]]


def test_the_table_escapes_what_markdown_would_read():
    table = heard_table({"call": [Heard(1), Heard(error="KeyError: a_b <c>|d")]})
    assert table.splitlines()[2] == r"| `call` | nothing | KeyError: a\_b \<c\>\|d |"


@pytest.mark.parametrize("library", [tf_keras, keras], ids=["keras 2", "keras 3"])
def test_plain_attention_attends_with_the_inputs_themselves(library):
    query, key = np.random.default_rng(5).normal(size=(2, 2, 3, 5)).astype("float32")
    output, weights = plain_attention(library, 5)(query, key, return_attention_scores=True)
    wanted = scaled_dot_product_attention(query, key, key)
    np.testing.assert_allclose(output, wanted[0], atol=1e-6)  # float32, sums of 5 terms
    np.testing.assert_allclose(np.array(weights)[:, 0], wanted[1], atol=1e-6)


def test_importing_keras_2_leaves_keras_3_alone():
    assert issubclass(tf_keras.layers.Dense, keras.layers.Layer) is False
    assert keras.layers.Dense(2)(np.ones((1, 3), "float32")).shape == (1, 2)
    assert keras.__version__.startswith("3.")
    assert tf_keras.__version__.startswith("2.")
