import datetime
import re
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.strategies import dates, sampled_from

from measured.dates import (
    FIRST_DAY,
    LANGUAGES,
    LAST_DAY,
    PARTS,
    STYLES,
    TEXT_CHARACTERS,
    TEXT_LENGTH,
    CooledSchedule,
    attention_shares,
    date_model,
    date_splits,
    decode_isos,
    encode_isos,
    encode_texts,
    source_parts,
    train_dates,
    write_date,
)
from measured.training import WarmupSchedule

# As a dictionary has them, not as Babel has.
MONTHS = {
    "de": "januar februar märz april mai juni juli august september oktober november dezember",
    "en": "january february march april may june july august september october november december",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre "
    "diciembre",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "id": "januari februari maret april mei juni juli agustus september oktober november desember",
    "nl": "januari februari maart april mei juni juli augustus september oktober november december",
}
WEEKDAYS = {
    "de": "montag dienstag mittwoch donnerstag freitag samstag sonntag",
    "en": "monday tuesday wednesday thursday friday saturday sunday",
    "es": "lunes martes miércoles jueves viernes sábado domingo",
    "fr": "lundi mardi mercredi jeudi vendredi samedi dimanche",
    "id": "senin selasa rabu kamis jumat sabtu minggu",
    "nl": "maandag dinsdag woensdag donderdag vrijdag zaterdag zondag",
}
ANY = {
    "date": dates(FIRST_DAY, LAST_DAY),
    "language": sampled_from(LANGUAGES),
    "style": sampled_from(STYLES),
}


def read_date(text, language):
    """Read a text back: digits, and the word that stands where this language has its month."""
    (year,) = re.findall(r"\d{4}", text)
    (day,) = re.findall(r"\b\d\d?\b", text)
    if language == "en":
        (name,) = re.findall(rf"([^\W\d]+) {day},", text)
    else:
        (name,) = re.findall(rf"\b{day}\.? (?:de )?([^\W\d]+)", text)
    months = MONTHS[language].split()
    if (language, name) == ("nl", "mrt"):  # the one that is no beginning of its long name
        name = "maart"
    (number,) = [n for n, month in enumerate(months, 1) if month.startswith(name)]
    return datetime.date(int(year), number, int(day))


@pytest.mark.parametrize(
    ("language", "style", "text"),
    [
        ("de", "full", "montag, 9. märz 1987"),
        ("de", "yMMMd", "9. märz 1987"),
        ("en", "yMMMEd", "mon, mar 9, 1987"),
        ("en", "yMMMMd", "march 9, 1987"),
        ("es", "full", "lunes, 9 de marzo de 1987"),
        ("es", "yMMMEd", "lun, 9 mar 1987"),
        ("fr", "yMMMMEd", "lun. 9 mars 1987"),
        ("id", "full", "senin, 09 maret 1987"),
        ("nl", "yMMMEd", "ma 9 mrt 1987"),
    ],
)
def test_one_day_as_people_write_it(language, style, text):
    assert write_date(datetime.date(1987, 3, 9), language, style) == text


@pytest.mark.parametrize("language", LANGUAGES)
def test_months_and_weekdays_are_those_of_a_dictionary(language):
    for number, month in enumerate(MONTHS[language].split(), 1):
        date = datetime.date(1999, number, 20)
        weekday = WEEKDAYS[language].split()[date.weekday()]
        assert month in write_date(date, language, "full").split()
        assert re.match(rf"{weekday}\b", write_date(date, language, "full"))


@given(**ANY)
@settings(deadline=None, max_examples=500)
def test_a_text_can_be_read_back(date, language, style):
    assert read_date(write_date(date, language, style), language) == date


def test_no_text_means_two_dates_whatever_its_language():
    meanings = {}
    day = datetime.date(2000, 1, 1)
    while day.year == 2000:
        for language in LANGUAGES:
            for style in STYLES:
                text = write_date(day, language, style)
                assert meanings.setdefault(text, day) == day
        day += datetime.timedelta(days=1)
    # Only months without a short form have fewer texts than styles, or two languages in common.
    assert 366 * 20 < len(meanings) < 366 * 30


def test_the_alphabet_and_the_length_are_just_what_the_texts_need():
    days = [datetime.date(1999, 1, 1) + datetime.timedelta(days=n) for n in range(0, 3 * 365)]
    texts = [
        write_date(d, language, style) for d in days for language in LANGUAGES for style in STYLES
    ]
    digits = set("0123456789")
    assert set("".join(texts)) | digits == set(TEXT_CHARACTERS)
    assert len(TEXT_CHARACTERS) == len(set(TEXT_CHARACTERS)) == 41
    assert max(map(len, texts)) == TEXT_LENGTH
    assert "".join(sorted(TEXT_CHARACTERS)) == TEXT_CHARACTERS


def test_an_unknown_language_or_style_is_refused():
    with pytest.raises(ValueError, match="one of de, en, es, fr, id, nl; got 'ru'"):
        write_date(FIRST_DAY, "ru", "full")
    with pytest.raises(ValueError, match="got 'short'"):
        write_date(FIRST_DAY, "de", "short")


@pytest.fixture(scope="module")
def splits():
    return date_splits(3, training=997, validation=101, test=103)


def test_no_date_of_one_split_is_in_another(splits):
    training, validation, test = (set(split.isos) for split in splits)
    assert not training & validation and not training & test and not validation & test
    assert len(validation) == 101 and len(test) == 103


def test_every_pair_belongs_together(splits):
    for split in splits:
        rows = zip(split.texts, split.isos, split.languages, split.styles, strict=True)
        for text, iso, language, style in rows:
            assert write_date(datetime.date.fromisoformat(iso), language, style) == text
        np.testing.assert_array_equal(split.sources, encode_texts(split.texts))
        np.testing.assert_array_equal(split.targets, encode_isos(split.isos))


def test_languages_and_styles_are_drawn_evenly(splits):
    for names, drawn in ((LANGUAGES, splits[0].languages), (STYLES, splits[0].styles)):
        shares = np.array([drawn.count(name) for name in names]) / 997
        np.testing.assert_allclose(shares, 1 / len(names), atol=0.06)  # five standard errors


def test_a_seed_gives_the_same_pairs_again_and_another_gives_others(splits):
    again = date_splits(3, training=997, validation=101, test=103)
    other = date_splits(4, training=997, validation=101, test=103)
    assert [s.texts for s in again] == [s.texts for s in splits]
    assert other[2].texts != splits[2].texts


def test_splits_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="must leave some of 73049 days"):
        date_splits(0, training=1, validation=73_000, test=49)
    with pytest.raises(ValueError, match="training 0, validation 1000, test 2000: each needs 1"):
        date_splits(0, training=0)


def test_token_ids_by_hand():
    ids = encode_texts(["1, á"])
    # Characters count from 3: space, comma, full stop, 0, 1.
    assert ids.dtype == np.int32 and ids.shape == (1, 35)
    assert ids[0, :5].tolist() == [7, 4, 3, 3 + TEXT_CHARACTERS.index("á"), 0]
    assert encode_isos(["2087-10-31"]).tolist() == [[1, 6, 4, 12, 11, 3, 5, 4, 3, 7, 5, 2]]


@given(date=ANY["date"])
@settings(deadline=None)
def test_iso_dates_come_back_from_their_ids(date):
    ids = encode_isos([date.isoformat()])
    assert decode_isos(ids) == decode_isos(ids[:, 1:]) == [date.isoformat()]


def test_what_follows_the_end_is_not_read():
    assert decode_isos([[5, 2, 6, 0], [5, 6, 0, 0], [2, 5, 5, 5]]) == ["1", "12", ""]


def test_a_text_that_does_not_fit_is_refused():
    with pytest.raises(LookupError, match="text 1: 'ж' in '9 ж' is none of"):
        encode_texts(["9 mai", "9 ж"])
    with pytest.raises(ValueError, match="text 0 has 36 characters, more than 35"):
        encode_texts(["1" * 36])
    with pytest.raises(ValueError, match="11 characters, more than 10"):
        encode_isos(["12087-10-31"])


def pairs(*rows):
    texts, isos, languages, styles = zip(*rows, strict=True)
    sources, targets = encode_texts(texts), encode_isos(isos)
    return SimpleNamespace(
        texts=texts,
        isos=isos,
        languages=languages,
        styles=styles,
        sources=sources,
        targets=targets,
        __len__=lambda: len(texts),
    )


def test_the_parts_of_a_text_by_hand():
    # A Tuesday in March: the same three letters are the rest first, and the month then.
    tuesday = ("mar, 10 mar 1987", "1987-03-10", "es", "yMMMEd")
    english = ("thu, december 1, 2011", "2011-12-01", "en", "yMMMMEd")
    parts = source_parts(pairs(tuesday, english))
    letters = np.array(list(".ymd"))[parts]
    assert "".join(letters[0, :18]) == ".....dd.mmm.yyyy.."
    assert "".join(letters[1, :23]) == ".....mmmmmmmm.d..yyyy.."


@given(**ANY)
@settings(deadline=None, max_examples=100)
def test_the_parts_of_a_text_spell_its_date(date, language, style):
    text = write_date(date, language, style)
    (parts,) = source_parts(pairs((text, date.isoformat(), language, style)))
    year, month, day = (
        "".join(np.array(list(text))[parts[: len(text)] == PARTS.index(part)])
        for part in ("year", "month", "day")
    )
    assert int(year) == date.year and int(day) == date.day
    assert read_date(f"{month} {day}, {year}", "en") if language == "en" else month in text
    assert not parts[len(text) :].any()


def test_attention_shares_by_hand():
    dates = date_splits(0, training=1, validation=1, test=5)[2]
    parts = source_parts(dates)

    def model(inputs, return_attention_scores):
        assert inputs[0] is dates.sources and inputs[1].shape == (5, 11)
        weights = np.zeros((5, 2, 11, 35))
        for row in range(5):
            year, month, day = (np.flatnonzero(parts[row] == p)[0] for p in (1, 2, 3))
            weights[row, :, 0:4, year] = 1
            weights[row, 0, 5:7, month] = 1  # one head looks at the month, the other elsewhere
            weights[row, 1, 5:7, 34] = 1
            weights[row, :, 8, day], weights[row, :, 9, year] = 1, 1
        return None, {"decoder_layer1_cross_attention": weights}

    expected = [[0, 1, 0, 0], [0.5, 0, 0.5, 0], [0, 0.5, 0, 0.5]]
    np.testing.assert_allclose(attention_shares(model, dates), expected, atol=1e-12)


def test_a_seed_gives_the_same_first_weights_again_and_another_gives_others():
    once, again, other = (date_model(seed).get_weights() for seed in (0, 0, 1))
    for one, two in zip(once, again, strict=True):
        np.testing.assert_array_equal(one, two)
    assert np.any(once[0] != other[0])


def test_a_short_training_reports_what_it_did():
    run = train_dates(0, steps=100, batch_size=2)
    assert run.test.texts == date_splits(0, training=200)[2].texts
    assert {name: len(values) for name, values in run.history.items()} == {
        "loss": 1,
        "accuracy": 1,
        "val_loss": 1,
        "val_accuracy": 1,
    }
    right = [
        said == iso for said, iso in zip(decode_isos(run.predicted), run.test.isos, strict=True)
    ]
    assert run.exact_match == np.mean(right)
    validation = date_splits(0, training=200)[1]
    logits = run.model((validation.sources, validation.targets[:, :-1]))
    said = np.argmax(logits, axis=-1)
    accuracy = np.mean(said == validation.targets[:, 1:])
    assert run.history["val_accuracy"] == [pytest.approx(accuracy, abs=2e-4)]  # ties of float32


def test_the_rate_comes_down_in_a_line_by_hand():
    rate = CooledSchedule(4, warmup_steps=4, steps=16, cooling_steps=4)
    # 0.5 · 1/8, 0.5 · 1/√4, 0.5 · 1/√16 · 1/4 at the steps 1, 4 and 16; then nothing.
    assert [float(rate(step)) for step in (0, 3, 15, 16, 99)] == [0.0625, 0.25, 0.03125, 0, 0]
    usual = WarmupSchedule(4, 4)
    assert [float(rate(step) / usual(step)) for step in range(11, 15)] == [1, 1, 0.75, 0.5]


def test_a_cooled_schedule_comes_back_from_its_configuration():
    schedule = CooledSchedule(64, 200, 1000, 300)
    optimizer = keras.optimizers.Adam(schedule)
    again = keras.optimizers.deserialize(
        keras.optimizers.serialize(optimizer), custom_objects={"CooledSchedule": CooledSchedule}
    )
    assert again._learning_rate.get_config() == schedule.get_config()


@pytest.mark.parametrize("cooling_steps", [0, 17])
def test_a_cooling_that_does_not_fit_is_refused(cooling_steps):
    with pytest.raises(ValueError, match=rf"cooling_steps must be in 1\.\.16, got {cooling_steps}"):
        CooledSchedule(4, 4, 16, cooling_steps)


def test_part_of_an_epoch_is_refused():
    with pytest.raises(ValueError, match="steps must be a multiple of 100, got 250"):
        train_dates(0, steps=250)
