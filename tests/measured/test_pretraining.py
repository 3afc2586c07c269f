from dataclasses import replace

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from measured.bert import TINY
from measured.pretraining import (
    Examples,
    MaskedLanguageModel,
    choose,
    corrupt,
    count_pairs,
    draw_examples,
    frequency_guess,
    neighbour_guess,
    new_model,
    pretrain,
    reconsider,
    score_guess,
    text_rows,
    top_predictions,
)
from measured.training import MaskedCrossEntropy
from measured.wordpiece import SPECIAL, WordPiece

timeless = settings(deadline=None)  # a busy machine is not a failure
WORDS = ("the", "a", "king", "queen", "fool", "sings", "sleeps", "and")
WORDPIECE = WordPiece([*SPECIAL, *WORDS])
PAD, UNK, CLS, SEP, MASK = range(5)
SMALL = replace(TINY, vocab_size=13, d_model=6, d_ff=11, max_length=17, dropout=0.0)


def rows_of(lengths, length, rng):
    """Framed rows of random words: -> int32 (rows, length)."""
    rows = np.zeros((len(lengths), length), dtype=np.int32)
    for row, n in zip(rows, lengths, strict=True):
        row[: n + 2] = CLS, *rng.integers(5, 13, n), SEP
    return rows


def test_texts_are_cut_into_equal_framed_parts_by_hand():
    rows = text_rows(WORDPIECE, ["the king sings and the queen sleeps", "", "fool"], 5)
    words = {word: number for number, word in enumerate(WORDS, 5)}
    the, king, sings, et, queen = (words[w] for w in ("the", "king", "sings", "and", "queen"))
    assert rows.tolist() == [
        [CLS, the, king, sings, SEP],
        [CLS, et, the, SEP, PAD],
        [CLS, queen, words["sleeps"], SEP, PAD],
        [CLS, words["fool"], SEP, PAD, PAD],
    ]


def test_a_row_without_room_for_text_is_refused():
    with pytest.raises(ValueError, match="room must be a positive integer, got 0"):
        text_rows(WORDPIECE, ["the king"], 2)


@timeless
@given(
    lengths=st.lists(st.integers(1, 29), min_size=1, max_size=7),
    share=st.floats(0.01, 0.9),
    seed=st.integers(0, 99),
)
def test_each_row_has_its_share_chosen_and_nothing_special(lengths, share, seed):
    rng = np.random.default_rng(seed)
    tokens = rows_of(lengths, 31, rng)
    chosen = choose(tokens, range(5), rng, share)
    assert chosen.dtype == bool
    assert not np.any(chosen & (tokens < 5))
    for n, found in zip(lengths, chosen.sum(axis=1), strict=True):
        low, high = int(np.floor(share * (n + 2))), int(np.ceil(share * (n + 2)))
        assert min(n, max(1, low)) <= found <= min(n, max(1, high))


def test_the_share_is_right_on_average_though_rows_are_short():
    tokens = rows_of([14] * 30_000, 16, np.random.default_rng(2))
    chosen = choose(tokens, range(5), np.random.default_rng(3))
    # 0.15 · 16 = 2.4: two or three a row. 30,000 lots: a deviation of 0.003 of a token.
    assert sorted(set(chosen.sum(axis=1).tolist())) == [2, 3]
    assert chosen.sum() / 30_000 == pytest.approx(2.4, abs=0.014)


def test_every_free_place_is_chosen_equally_often():
    tokens = np.repeat(rows_of([10], 13, np.random.default_rng(0)), 20_000, axis=0)
    counts = choose(tokens, range(5), np.random.default_rng(1), 0.25).sum(axis=0)
    assert counts[[0, 11, 12]].tolist() == [0, 0, 0]
    # 0.25 · 12 = 3 of 10 places, 20,000 draws: a deviation of 65, and 300 is nearly five of them.
    assert np.abs(counts[1:11] - 6000).max() < 300


def test_a_row_with_nothing_to_predict_is_refused():
    tokens = np.array([[CLS, 7, SEP], [CLS, SEP, PAD]])
    with pytest.raises(ValueError, match="row 1 has no token to predict"):
        choose(tokens, range(5), np.random.default_rng(0))


def test_corruption_has_the_rates_of_the_paper():
    rng = np.random.default_rng(3)
    tokens = rows_of([101] * 997, 103, rng)
    chosen = rng.random(tokens.shape) < 0.5
    chosen &= tokens > 4
    shown = corrupt(tokens, chosen, WORDPIECE, rng)
    assert shown.dtype == np.int32
    np.testing.assert_array_equal(shown[~chosen], tokens[~chosen])
    masked, same = (shown == MASK)[chosen].mean(), (shown == tokens)[chosen].mean()
    # 50,000 draws: deviations below 0.002. An eighth of the random tokens are the old ones.
    assert masked == pytest.approx(0.8, abs=0.008)
    assert same == pytest.approx(0.1 + 0.1 / 8, abs=0.008)
    counts = np.bincount(shown[chosen], minlength=13)
    assert counts[[PAD, UNK, CLS, SEP]].tolist() == [0, 0, 0, 0]
    assert np.all(counts[5:] > 0)


def test_examples_give_back_what_was_hidden():
    rng = np.random.default_rng(4)
    tokens = rows_of([3, 29, 11, 1], 31, rng)
    examples = draw_examples(tokens, WORDPIECE, rng)
    restored = examples.shown.copy()
    for row, (places, targets) in enumerate(zip(examples.places, examples.targets, strict=True)):
        real = targets != 0
        assert not np.any(targets[~real])
        assert len(set(places[real])) == real.sum()
        restored[row, places[real]] = targets[real]
    np.testing.assert_array_equal(restored, tokens)
    found = (examples.targets != 0).sum(axis=1)
    assert examples.targets.shape == (4, found.max())
    for row, allowed in enumerate([{1}, {4, 5}, {1, 2}, {1}]):  # 15 % of 5, 31, 13 and 3
        assert found[row] in allowed
    assert examples.places.dtype == examples.targets.dtype == np.int32


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(5)
    return MaskedLanguageModel(SMALL)


def test_the_head_by_hand(model):
    """Projection, exact GELU, normalisation, product with the token table, bias: in NumPy."""
    from scipy.special import erf

    rng = np.random.default_rng(6)
    tokens, places = rows_of([5, 3], 7, rng), np.array([[1, 4, 2], [3, 1, 1]], dtype=np.int32)
    model((tokens, places))
    model.bias.assign(rng.normal(size=13))
    logits = np.array(model((tokens, places)))
    assert logits.shape == (2, 3, 13)
    states = np.array(model.bert(tokens), dtype="float64")
    table = np.array(model.bert.token_embedding.embeddings, dtype="float64")
    kernel, bias = (np.array(weight, dtype="float64") for weight in model.project.weights)
    for row in range(2):
        for column, place in enumerate(places[row]):
            x = states[row, place] @ kernel + bias
            x = x * 0.5 * (1 + erf(x / np.sqrt(2)))
            x = (x - x.mean()) / np.sqrt(x.var() + 1e-12)
            expected = table @ x + np.array(model.bias)
            np.testing.assert_allclose(logits[row, column], expected, atol=1e-5)  # float32


def test_weights_are_tied(model):
    model((rows_of([5], 7, np.random.default_rng(0)), np.array([[1]], dtype=np.int32)))
    outside_bert = model.count_params() - model.bert.count_params()
    assert outside_bert == 6 * 6 + 6 + 2 * 6 + 13  # no second table of 13 × 6


def test_a_pooler_is_refused():
    with pytest.raises(ValueError, match="give a config with pooler=False"):
        MaskedLanguageModel(replace(SMALL, pooler=True))


def test_a_saved_model_says_the_same(model, tmp_path):
    inputs = rows_of([5, 3], 7, np.random.default_rng(7)), np.array([[1, 4], [3, 1]])
    expected = np.array(model(inputs))
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again(inputs), expected)


def test_only_chosen_tokens_count_in_the_loss():
    rng = np.random.default_rng(8)
    logits = rng.normal(size=(2, 3, 13)).astype("float32")
    targets = np.array([[5, 7, 0], [9, 0, 0]])
    by_hand = 0.0
    for row, column in ((0, 0), (0, 1), (1, 0)):
        x = logits[row, column].astype("float64")
        by_hand += np.log(np.exp(x).sum()) - x[targets[row, column]]
    loss = float(MaskedCrossEntropy()(targets, logits))
    assert loss == pytest.approx(by_hand / 3, abs=1e-6)  # float32


# Guesses by counting ---------------------------------------------------------------------------

PAIRED = np.array([[CLS, 5, 7, 10, SEP, PAD], [CLS, 5, 8, SEP, PAD, PAD]])


def test_pairs_are_counted_by_hand():
    counts = count_pairs(PAIRED, 13)
    expected = {(CLS, 5): 2, (5, 7): 1, (7, 10): 1, (10, SEP): 1, (5, 8): 1, (8, SEP): 1}
    assert {tuple(pair): counts[tuple(pair)] for pair in np.argwhere(counts).tolist()} == expected


def test_the_frequency_guess_by_hand():
    examples = Examples(PAIRED, np.array([[1], [2]]), np.array([[5], [8]]))
    guess = frequency_guess(PAIRED, examples, 13)
    assert guess.shape == (2, 13)
    # Five tokens, and one more for each of eight words.
    assert guess[0].tolist() == pytest.approx(
        [0] * 5 + [3 / 13, 1 / 13, 2 / 13, 2 / 13, 1 / 13, 2 / 13, 1 / 13, 1 / 13]
    )
    loss, accuracy = score_guess(guess, examples)
    assert loss == pytest.approx(-(np.log(3 / 13) + np.log(2 / 13)) / 2)
    assert accuracy == 0.5  # "the" is the most frequent, and the target of one of two


def test_the_neighbour_guess_is_bayes_rule_with_independent_neighbours():
    rng = np.random.default_rng(9)
    tokens = rows_of([11] * 101, 13, rng)
    tokens[::9, 3] = UNK  # may stand between words, and is never the answer
    examples = draw_examples(tokens[:7], WORDPIECE, rng)
    guess = neighbour_guess(tokens, examples, 13, prior=5)
    np.testing.assert_allclose(guess.sum(axis=1), 1, rtol=1e-12)
    share = np.array([(tokens == word).sum() + 1 for word in range(5, 13)], dtype=float)
    share /= share.sum()
    at = 0
    for row, (places, targets) in enumerate(zip(examples.places, examples.targets, strict=True)):
        for place, target in zip(places, targets, strict=True):
            if not target:
                continue
            left, right = examples.shown[row, place - 1], examples.shown[row, place + 1]
            expected = []
            for word in range(5, 13):
                after = sum(
                    np.sum((tokens[:, i] == left) & (tokens[:, i + 1] == word)) for i in range(12)
                )
                before = sum(
                    np.sum((tokens[:, i] == word) & (tokens[:, i + 1] == right)) for i in range(12)
                )
                n_left = np.sum((tokens[:, :-1] == left) & (tokens[:, 1:] != 0))
                n_right = np.sum(tokens[:, 1:] == right)
                p = share[word - 5]
                expected.append(
                    (after + 5 * p) / (n_left + 5) * (before + 5 * p) / (n_right + 5) / p
                )
            expected = np.array(expected) / np.sum(expected)
            np.testing.assert_allclose(guess[at, 5:], expected, rtol=1e-9)
            at += 1
    assert at == len(guess)


def test_a_masked_neighbour_says_nothing():
    tokens = rows_of([11] * 53, 13, np.random.default_rng(10))
    shown = np.array([[CLS, MASK, MASK, MASK, SEP]])
    examples = Examples(shown, np.array([[2]]), np.array([[7]]))
    guess = neighbour_guess(tokens, examples, 13)
    np.testing.assert_allclose(guess, frequency_guess(tokens, examples, 13), rtol=1e-12)


def test_what_is_shown_is_weighed_by_hand():
    """Half "the", half "fool" among eight words: 1/10 stays, 1/80 is each word by chance."""
    guess = np.zeros((3, 13))
    guess[:, [5, 9]] = 0.5
    shown = np.array([[CLS, MASK, SEP], [CLS, 5, SEP], [CLS, 7, SEP]])
    examples = Examples(shown, np.ones((3, 1), dtype=int), np.array([[5], [5], [9]]))
    after = reconsider(guess, examples)
    assert after[:, 5].tolist() == pytest.approx([0.5, 9 / 10, 0.5])
    assert after[:, 9].tolist() == pytest.approx([0.5, 1 / 10, 0.5])


def test_what_is_shown_is_weighed_as_corruption_makes_it():
    rng = np.random.default_rng(11)
    tokens = np.full((200_000, 3), SEP, dtype=np.int32)
    tokens[:, 0] = CLS
    tokens[:, 1] = rng.choice([5, 6, 7], len(tokens), p=[0.6, 0.3, 0.1])
    examples = draw_examples(tokens, WORDPIECE, rng)
    guess = np.zeros((len(tokens), 13))
    guess[:, [5, 6, 7]] = 0.6, 0.3, 0.1
    after = reconsider(guess, examples)
    for word in (5, 7, 12):
        here = examples.shown[:, 1] == word
        counted = np.bincount(tokens[here, 1], minlength=13) / here.sum()
        # At least 2,000 draws: a deviation of 0.011.
        np.testing.assert_allclose(after[here][0], counted, atol=0.04)


# Training --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run():
    """A language in which the neighbours decide: after "the" come nouns, after a noun its verb."""
    texts = ["the king sings the queen sleeps"] * 100 + ["the queen sleeps the king sings"] * 100
    return pretrain(texts, texts[::10], seed=0, epochs=10, vocab_size=60, length=9, batch_size=8)


def test_what_neighbours_decide_is_learned(run):
    assert len(run.losses) == 10
    assert len(run.validation_losses) == len(run.accuracies) == 11
    vocab_size = len(run.wordpiece)
    frequency, _ = score_guess(
        frequency_guess(run.training, run.validation, vocab_size), run.validation
    )
    assert abs(run.validation_losses[0] - np.log(vocab_size)) < 1.5
    assert run.validation_losses[-1] < 0.5 * frequency
    assert run.accuracies[-1] > 0.8


def test_a_gap_is_filled_by_its_neighbours(run):
    (first, share), *others = top_predictions(
        run.model, run.wordpiece, "the king [MASK] the queen sleeps", 3
    )
    assert first == "sings"
    assert share > 0.5
    assert len(others) == 2
    assert share >= others[0][1] >= others[1][1]


def test_a_new_model_is_what_training_starts_from():
    first, second = new_model(40, 9, seed=3), new_model(40, 9, seed=3)
    for one, other in zip(first.weights, second.weights, strict=True):
        np.testing.assert_array_equal(one, other)
    for table in (first.bert.token_embedding, first.bert.position_embedding):
        # A normal distribution cut at two deviations has 0.88 of the deviation before the cut, and
        # Keras does not make up for that. 576 numbers or more: within a tenth.
        assert np.std(table.embeddings) == pytest.approx(0.88 * 0.125, rel=0.1)


def test_held_out_texts_give_no_vocabulary():
    run = pretrain(["the king sings"] * 4, ["the zebra sings"], 1, 0, vocab_size=40, length=9)
    assert len(run.losses) == 0
    assert len(run.validation_losses) == 1
    assert not any("z" in piece for piece in run.wordpiece.vocabulary)
    assert run.wordpiece.ids["[UNK]"] in run.validation.shown
    assert run.wordpiece.ids["[UNK]"] not in run.validation.targets


@pytest.mark.parametrize("text", ["the king", "[MASK] [MASK]"])
def test_a_text_must_have_one_gap(model, text):
    with pytest.raises(ValueError, match=r"text must have one \[MASK\], got [02]"):
        top_predictions(model, WORDPIECE, text)
