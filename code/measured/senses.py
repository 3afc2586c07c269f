"""One word in two senses: what the states of a pretrained encoder know of it, layer by layer.

In each pair below the word stands at the same position, so that its embedding, of token and
position, is the same in both: layer 0 cannot tell them apart. `HARD` and `TWICE` set the topic
against the sense. All sentences that were tried are here: of *bank* the first six pairs, then the
four after them; none was dropped or reworded for its result.
"""

from itertools import combinations

import numpy as np

from measured.sentences import unit

SENSES = {"bank": ("river", "money"), "match": ("game", "fire")}

# word -> pairs of sentences, one of each sense in the order of SENSES.
PAIRS = {
    "bank": (
        (
            "The bank was muddy and covered with reeds.",
            "The bank was fined for hiding its losses.",
        ),
        (
            "A steep bank rose above the slow water.",
            "A large bank raised its interest rate.",
        ),
        (
            "We reached the bank just before the boat drifted past.",
            "He called the bank because his card did not work.",
        ),
        (
            "They walked along the bank and watched the ducks.",
            "She works at the bank and approves the loans.",
        ),
        (
            "The fishermen waited on the bank until the trout began to bite.",
            "Her savings stayed in the bank until the children grew up.",
        ),
        (
            "Tall trees grow along the northern bank of the stream.",
            "My parents borrowed money from the bank to buy a house.",
        ),
        (
            "By noon the ferry had left the bank and crossed the river.",
            "By noon the clerk had left the bank and gone home.",
        ),
        (
            "Rabbits had dug dozens of holes in the bank below the mill.",
            "Customers had lost all their trust in the bank after the scandal.",
        ),
        (
            "After the picnic the children slid down the grassy bank into the water.",
            "Shortly before dawn the thieves broke into the central bank and opened the safe.",
        ),
        (
            "We saw a heron and two swans on the far bank of the river.",
            "He is a lawyer and has worked for the largest bank of the country.",
        ),
    ),
    "match": (
        (
            "The match was over before the rain came.",
            "The match was damp and would not burn.",
        ),
        (
            "Our last match ended in a draw.",
            "Our last match went out in the wind.",
        ),
        (
            "They lost the match in the final minute.",
            "He struck the match on the rough wall.",
        ),
        (
            "Thousands came to the match to cheer their team.",
            "She held up the match to light the candle.",
        ),
        (
            "Heavy rain delayed the tennis match by an hour.",
            "A single spark from the match set the curtain on fire.",
        ),
        (
            "The captain was injured in the match against the champions.",
            "The stove was lit with a match from the kitchen drawer.",
        ),
    ),
}

# *bank* among words that belong to the other sense: sentence and sense.
HARD = (
    ("The banker fell asleep on the bank beside his fishing rod.", "river"),
    ("The fisherman owed the bank more than his boat was worth.", "money"),
    ("The new bank stands beside the river, near the old bridge.", "money"),
    ("He lost his wallet and his credit cards on the grassy bank.", "river"),
    ("The flood reached the bank and soaked every note in the vault.", "money"),
    ("The investors met on the bank where the ferry lands.", "river"),
    ("The accountant counted his money on the bank of the canal.", "river"),
    ("The swimmer asked the bank for a new card.", "money"),
)

# Both senses in one sentence: it, and the senses in the order of reading.
TWICE = (
    (
        "He left the bank with his wages and sat down on the bank of the river to fish.",
        ("money", "river"),
    ),
    (
        "She swam to the bank, dried her hair and drove to the bank to cash a cheque.",
        ("river", "money"),
    ),
    (
        "The bank bought the meadow and built a wall along the bank of the stream.",
        ("money", "river"),
    ),
)

# A third sense, which no neighbour can have.
OTHER = (
    "The pilot put the plane into a steep bank.",
    "The hospital asked its blood bank for more plasma.",
    "A bank of clouds hid the sun.",
)


def pairs_of(word):
    """The word's sentences, pair after pair, and the sense of each: -> list, array of str."""
    pairs = PAIRS[word]
    return [text for pair in pairs for text in pair], np.array(SENSES[word] * len(pairs))


def word_states(bert, wordpiece, texts, word):
    """States of a word wherever it stands: -> float64 (layers + 1, occurrences, d_model).

    Occurrences follow the texts, and within a text its order. The word must be one piece, and in
    each text.
    """
    pieces = wordpiece.tokenize(word)
    if len(pieces) != 1:
        raise ValueError(f"{word!r} must be one piece, got {pieces}")
    tokens, segments = wordpiece.batch(texts)
    here = tokens == wordpiece.ids[pieces[0]]
    if not here.any(axis=1).all():
        raise ValueError(f"{word!r} is not in text {int(here.any(axis=1).argmin())}")
    states = bert(tokens, segments, return_all_states=True)
    return np.stack([np.asarray(layer, dtype="float64")[here] for layer in states])


def cosines(states, others=None):
    """Cosines of (…, n, width) with (…, m, width), or with each other: -> float64 (…, n, m)."""
    states = unit(states)
    others = states if others is None else unit(others)
    return states @ np.swapaxes(others, -1, -2)


def within_and_across(table, senses):
    """Mean cosine of two states of one sense, and of two senses: table (n, n) -> two floats."""
    same = _same(senses)
    apart = ~np.eye(len(senses), dtype=bool)
    return float(table[same & apart].mean()), float(table[~same].mean())


def margins(table, senses):
    """How much nearer the nearest state of the own sense is than that of the other: -> (n,).

    Positive: the nearest neighbour has the own sense. A state is no neighbour of itself.
    """
    same, apart = _same(senses), ~np.eye(len(senses), dtype=bool)
    own = np.where(same & apart, table, -np.inf).max(axis=1)
    return own - np.where(same, -np.inf, table).max(axis=1)


def margins_to(table, senses, reference_senses):
    """`margins` of new states against reference states: table (n, references) -> (n,)."""
    same = np.array(senses)[:, None] == np.array(reference_senses)[None, :]
    own = np.where(same, table, -np.inf).max(axis=1)
    return own - np.where(same, -np.inf, table).max(axis=1)


def right_among_fewer(table, senses, num_pairs):
    """Share of right neighbours for each choice of `num_pairs` pairs: -> (choices,).

    Rows 2i and 2i + 1 of the table are pair i. How much of a perfect score is luck in choosing?
    """
    shares = []
    for choice in combinations(range(len(senses) // 2), num_pairs):
        rows = np.array([row for pair in choice for row in (2 * pair, 2 * pair + 1)])
        shares.append(np.mean(margins(table[np.ix_(rows, rows)], senses[rows]) > 0))
    return np.array(shares)


def _same(senses):
    senses = np.asarray(senses)
    return senses[:, None] == senses[None, :]
