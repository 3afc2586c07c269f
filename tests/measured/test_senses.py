import numpy as np
import pytest
import reference_bert
from hypothesis import given
from hypothesis.strategies import integers
from reference_bert import needs_checkpoint

from measured.checkpoints import load_minilm, minilm_vocabulary
from measured.senses import (
    HARD,
    OTHER,
    PAIRS,
    SENSES,
    TWICE,
    cosines,
    margins,
    margins_to,
    pairs_of,
    right_among_fewer,
    within_and_across,
    word_states,
)
from measured.wordpiece import WordPiece

# Four states at 0°, 30°, 90° and 100°: a table of cosines that can be read off.
ANGLES = np.radians([0, 30, 90, 100])
PLANE = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)
DEGREES = {angle: np.cos(np.radians(angle)) for angle in (10, 30, 60, 70, 90, 100)}


@pytest.fixture(scope="module")
def minilm():
    return load_minilm(), WordPiece.from_vocabulary(minilm_vocabulary())


@pytest.fixture(scope="module")
def bank(minilm):
    texts, senses = pairs_of("bank")
    return word_states(*minilm, texts, "bank"), senses


def test_cosines_of_four_angles_by_hand():
    table = cosines(PLANE * [[1], [2], [3], [4]])  # length does not count
    expected = np.cos(ANGLES[:, None] - ANGLES[None, :])
    np.testing.assert_allclose(table, expected, atol=1e-15)
    np.testing.assert_allclose(cosines(PLANE[:1], PLANE[2:]), expected[:1, 2:], atol=1e-15)
    assert cosines(np.stack([PLANE, PLANE])).shape == (2, 4, 4)


def test_within_across_and_margins_by_hand():
    table, senses = cosines(PLANE), np.array(["a", "a", "b", "b"])
    within, across = within_and_across(table, senses)
    assert within == pytest.approx((DEGREES[30] + DEGREES[10]) / 2)
    assert across == pytest.approx(sum(DEGREES[a] for a in (90, 100, 60, 70)) / 4)
    expected = [
        DEGREES[30] - DEGREES[90],
        DEGREES[30] - DEGREES[60],
        DEGREES[10] - DEGREES[60],
        DEGREES[10] - DEGREES[70],
    ]
    np.testing.assert_allclose(margins(table, senses), expected, atol=1e-15)
    # In other company 30° has its nearest, 0°, in the other sense.
    mixed = margins(table, np.array(["a", "b", "b", "a"]))
    np.testing.assert_allclose(mixed[1], DEGREES[60] - DEGREES[30], atol=1e-15)


def test_margins_to_reference_states_by_hand():
    table = cosines(PLANE[1:3], PLANE[[0, 3]])
    found = margins_to(table, ["a", "b"], ["a", "b"])
    expected = [DEGREES[30] - DEGREES[70], DEGREES[10] - DEGREES[90]]
    np.testing.assert_allclose(found, expected, atol=1e-15)
    assert np.all(margins_to(table, ["b", "a"], ["a", "b"]) < 0)
    np.testing.assert_array_equal(margins_to(table, ["b", "a"], ["a", "b"]), -found)


@given(seed=integers(0, 10_000))
def test_a_positive_margin_is_a_right_nearest_neighbour(seed):
    rng = np.random.default_rng(seed)
    table, senses = cosines(rng.normal(size=(7, 3))), np.array(list("aabbaba"))
    for row, margin in enumerate(margins(table, senses)):
        nearest = max((column for column in range(7) if column != row), key=lambda c: table[row, c])
        assert (margin > 0) == (senses[nearest] == senses[row])


def test_fewer_pairs_are_every_choice_of_them():
    rng = np.random.default_rng(2)
    table, senses = cosines(rng.normal(size=(8, 3))), np.array(["a", "b"] * 4)
    shares = right_among_fewer(table, senses, 3)
    assert len(shares) == 4 and len(right_among_fewer(table, senses, 4)) == 1
    without_last = margins(table[:6, :6], senses[:6])
    assert shares[0] == np.mean(without_last > 0)
    assert right_among_fewer(table, senses, 4)[0] == np.mean(margins(table, senses) > 0)


@needs_checkpoint
def test_both_sentences_of_a_pair_have_the_word_once_at_one_position_of_its_own(minilm):
    _, wordpiece = minilm
    for word, pairs in PAIRS.items():
        places = []
        for pair in pairs:
            found = [wordpiece.tokenize(text) for text in pair]
            assert [pieces.count(word) for pieces in found] == [1, 1]
            assert found[0].index(word) == found[1].index(word)
            places.append(found[0].index(word))
        assert len(set(places)) == len(pairs)
    assert all(wordpiece.tokenize(text).count("bank") == 1 for text, _ in HARD)
    assert all(wordpiece.tokenize(text).count("bank") == 2 for text, _ in TWICE)
    assert all(wordpiece.tokenize(text).count("bank") == 1 for text in OTHER)


def test_no_sentence_is_there_twice_and_every_sense_is_known():
    everything = [text for pairs in PAIRS.values() for pair in pairs for text in pair]
    everything += [text for text, _ in HARD] + [text for text, _ in TWICE] + list(OTHER)
    assert len(set(everything)) == len(everything)
    named = {sense for _, sense in HARD} | {sense for _, pair in TWICE for sense in pair}
    assert named == set(SENSES["bank"])
    texts, senses = pairs_of("match")
    assert texts[:2] == list(PAIRS["match"][0]) and senses[:2].tolist() == ["game", "fire"]


@needs_checkpoint
def test_states_are_those_of_the_reference(minilm, bank):
    _, wordpiece = minilm
    texts, _ = pairs_of("bank")
    for row in (1, 6):
        ids = wordpiece.encode(texts[row])[0]
        place = ids.index(wordpiece.ids["bank"])
        exact = reference_bert.states(reference_bert.stored(), ids, 12)
        for own, layer in zip(bank[0], exact, strict=True):
            np.testing.assert_allclose(own[row], layer[place], atol=1e-5)  # float32, six layers


@needs_checkpoint
def test_layer_0_cannot_tell_and_the_last_layer_can(bank):
    states, senses = bank
    assert states.shape == (7, 20, 384)
    np.testing.assert_array_equal(states[0, 0::2], states[0, 1::2])  # word and position, no more
    assert np.all(margins(cosines(states[0]), senses) < 0)
    assert np.all(margins(cosines(states[6]), senses) > 1e-4)  # a hundred times float32's noise
    within, across = within_and_across(cosines(states[6]), senses)
    assert within > across + 0.03


@needs_checkpoint
def test_where_it_fails(minilm, bank):
    states, senses = bank
    texts, match = pairs_of("match")
    last = cosines(word_states(*minilm, texts, "match")[6])
    assert np.mean(margins(last, match) > 0) < 0.75
    hard = word_states(*minilm, [text for text, _ in HARD], "bank")[6]
    right = margins_to(cosines(hard, states[6]), [sense for _, sense in HARD], senses) > 0
    assert right.sum() < len(HARD) / 2  # the topic wins over the sense
    assert right_among_fewer(cosines(states[6]), senses, 6).min() < 1


@needs_checkpoint
def test_a_word_in_a_sentence_twice_has_two_states(minilm):
    text = TWICE[0][0]
    states = word_states(*minilm, [text, "The bank."], "bank")
    assert states.shape == (7, 3, 384)
    one = word_states(*minilm, [text], "bank")
    np.testing.assert_allclose(states[:, :2], one, atol=1e-5)
    assert np.abs(one[6, 0] - one[6, 1]).max() > 0.1


@needs_checkpoint
def test_refuses_a_word_that_has_no_state(minilm):
    with pytest.raises(ValueError, match=r"'banking house' must be one piece, got \['banking', "):
        word_states(*minilm, ["The banking house."], "banking house")
    with pytest.raises(ValueError, match="'bank' is not in text 1"):
        word_states(*minilm, ["The bank.", "The banks."], "bank")
