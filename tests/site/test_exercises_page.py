"""Every exercise answered through the page, as a reader would, opened from the disk.

What must be right, and what each slip gives, is read from the ledger; the page has to agree.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import Browser, Page, expect

from ledger.entries import LEDGER, load_ledger

pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parents[2]
PAGE = "chapters/exercises.html"
WRITTEN = ("number", "count", "vector", "shape")
RUBBISH = (
    "", "   ", "abc", "1/6x", "NaN", "Infinity", "∞", "1e999", "-1e999", "10^999", "1/0", "0/0",
    "--3", "−−3", "1/2/3", "√-4", "1..2", "(1", "1e", "3^", "/2", "1e-999",
)  # fmt: skip


@dataclass(frozen=True)
class Exercise:
    """One exercise as the page holds it, with its numbers from the ledger."""

    name: str
    kind: str
    answer: list[float]
    within: float
    hints: list[str]
    slips: list[tuple[str, list[float]]]

    @property
    def whole(self) -> bool:
        return self.kind in ("count", "shape")


@pytest.fixture(scope="module")
def site(built):
    """The book alone: the other project has no exercises."""
    return built("book")


@pytest.fixture(scope="module")
def exercises(site) -> list[Exercise]:
    file = site.folder / PAGE
    if not file.is_file():
        pytest.fail("the book has no page of exercises")
    ledger = load_ledger(ROOT / LEDGER)
    soup = BeautifulSoup(file.read_bytes(), "lxml")
    return [load(div, ledger) for div in soup.select(".exercise-check")]


def load(div, ledger) -> Exercise:
    id, kind = div["data-ledger"], div["data-kind"]
    name = id.removeprefix("ex-")
    # The slips' values: one entry for all that are alike in shape, and one for each other shape.
    alike = ledger[f"{id}-slips"].value if f"{id}-slips" in ledger else []
    others = [numbers(value) for value in alike]
    if kind == "shape":
        apart = [key for key in ledger if key.startswith(f"{id}-") and key != f"{id}-slips"]
        others += [numbers(ledger[key].value) for key in apart]
    texts = listed(div, "data-slip-{}")
    assert len(texts) == len(others), f"{id}: the ledger has {len(others)} slips"
    return Exercise(
        name,
        kind,
        numbers(ledger[id].value),
        float(div["data-within"]),
        listed(div, "data-hint-{}"),
        list(zip(texts, others, strict=True)),
    )


def listed(div, key: str) -> list[str]:
    return [div[key.format(i)] for i in range(1, 20) if div.has_attr(key.format(i))]


def numbers(value) -> list[float]:
    return [float(number) for number in (value if isinstance(value, list) else [value])]


@pytest.fixture
def visit(site, browser: Browser) -> Iterator[Callable[..., Page]]:
    """Open the page from the disk in a fresh profile; nothing may go wrong in it."""
    contexts, complaints = [], []

    def visit(script: str = "", **options) -> Page:
        context = browser.new_context(
            viewport={"width": options.pop("width", 1280), "height": 900},
            reduced_motion="reduce",
            **options,
        )
        context.set_default_timeout(10_000)
        contexts.append(context)
        if script:
            context.add_init_script(script)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
        page.goto((site.folder / PAGE).as_uri(), wait_until="load")
        return page

    yield visit
    for context in contexts:
        context.close()
    assert complaints == []


def form(page: Page, name: str):
    return page.locator(f"#answer-{name} form")


# Type and submit one text after the other, as fast as the page answers. It waits a moment each
# time, so that screen readers say it; several exercises wait together.
SUBMIT = """
(asked) => Promise.all(Object.entries(asked).map(async ([name, texts]) => {
  const form = document.querySelector(`#answer-${name} form`);
  const told = form.querySelector(".exercise-feedback"), said = [];
  for (const text of texts) {
    form.querySelector("input[type=text]").value = text;
    form.requestSubmit();
    while (told.dataset.verdict === undefined) await new Promise((later) => setTimeout(later, 5));
    said.push([told.dataset.verdict, told.textContent]);
  }
  return said;
}))
"""


def write_each(page: Page, asked: Mapping[str, list[str]]) -> dict[str, list[tuple[str, str]]]:
    """What is told of each text: exercise -> texts to exercise -> (verdict, what the page says)."""
    told = page.evaluate(SUBMIT, dict(asked))
    return {name: [tuple(one) for one in said] for name, said in zip(asked, told, strict=True)}


def write_all(page: Page, name: str, texts: list[str]) -> list[tuple[str, str]]:
    return write_each(page, {name: texts})[name]


def return_to(page: Page) -> None:
    """Leave the page and come back. Chromium's reload of a file now and then sees no storage."""
    address = page.url
    page.goto("about:blank")
    page.goto(address, wait_until="load")


def reply(page: Page, name: str) -> tuple[str, str]:
    """The verdict, and what the page says; it says nothing for a moment before."""
    told = form(page, name).locator(".exercise-feedback[data-verdict]")
    told.wait_for()
    return told.get_attribute("data-verdict"), told.text_content()


def write(page: Page, name: str, text: str) -> tuple[str, str]:
    """Type as a reader does, and press Enter."""
    field = form(page, name).locator("input[type=text]")
    field.fill(text)
    field.press("Enter")
    return reply(page, name)


def choose(page: Page, exercise: Exercise, value: float) -> tuple[str, str]:
    labels = form(page, exercise.name).locator("label.exercise-option")
    place = int(value) - 1 if exercise.kind == "choice" else 1 - int(value)
    labels.nth(place).click()
    form(page, exercise.name).locator("button[type=submit]").click()
    return reply(page, exercise.name)


def answer(page: Page, exercise: Exercise, values: list[float]) -> tuple[str, str]:
    if exercise.kind in WRITTEN:
        return write_all(page, exercise.name, notations(exercise, values)[:1])[0]
    return choose(page, exercise, values[0])


def notations(exercise: Exercise, values: list[float]) -> list[str]:
    """Ways in which a reader may write these numbers."""
    plain = [f"{value:.12g}" for value in values]
    comma = [text.replace(".", ",") for text in plain]
    minus = [text.replace("-", "−") for text in plain]
    fraction = [str(Fraction(value).limit_denominator(1000)) for value in values]
    exact = [float(Fraction(text)) for text in fraction] == pytest.approx(values, abs=1e-12)
    if exercise.kind in ("number", "count"):
        ways = [plain[0], comma[0], minus[0], f" {plain[0]} ", f"[{plain[0]}]", f"{values[0]:.12e}"]
        if exercise.kind == "count":
            grouped = f"{int(values[0]):,}"
            ways += [grouped, *(grouped.replace(",", sign) for sign in (" ", "\u202f", ".", "'"))]
        return ways + fraction * exact
    if exercise.kind == "shape":
        inner = ", ".join(plain)
        return [f"({inner})", inner, f"[{','.join(plain)}]", " ".join(plain), " × ".join(plain),
                "; ".join(plain)]  # fmt: skip
    ways = [f"[{', '.join(plain)}]", " ".join(plain), "; ".join(comma), ", ".join(comma),
            f"({'; '.join(minus)})", "\t".join(comma)]  # fmt: skip
    return ways + [f"[{','.join(fraction)}]", "; ".join(fraction)] * exact


# ---- What the page holds ----


def test_there_are_some_thirty_exercises_of_every_kind(exercises):
    assert 30 <= len(exercises) <= 45
    assert {exercise.kind for exercise in exercises} == {*WRITTEN, "yes-no", "choice"}
    assert len({exercise.name for exercise in exercises}) == len(exercises)
    assert sum(len(exercise.slips) for exercise in exercises) > 80


def test_every_ledger_entry_of_an_answer_has_its_exercise(exercises):
    ledger = {id.removeprefix("ex-") for id in load_ledger(ROOT / LEDGER) if id.startswith("ex-")}
    names = {exercise.name for exercise in exercises}
    assert names <= ledger
    slips = {f"{exercise.name}-slips" for exercise in exercises if exercise.slips}
    assert {id for id in ledger if id.endswith("-slips")} == slips


def test_the_page_holds_the_ledgers_numbers(exercises, site):
    soup = BeautifulSoup((site.folder / PAGE).read_bytes(), "lxml")
    for exercise in exercises:
        div = soup.select_one(f"#answer-{exercise.name}")
        held = [numbers_of(div["data-answer"])]
        held += [numbers_of(text) for text in listed(div, "data-slip-{}-value")]
        wanted = [exercise.answer, *(values for _, values in exercise.slips)]
        for ours, theirs in zip(held, wanted, strict=True):
            assert ours == pytest.approx(theirs, rel=1e-7, abs=1e-9), exercise.name


def numbers_of(text: str) -> list[float]:
    return [float(number) for number in text.split(" ")]


def test_every_exercise_says_its_level_and_has_a_folded_solution(site):
    soup = BeautifulSoup((site.folder / PAGE).read_bytes(), "lxml")
    for div in soup.select(".exercise-check"):
        section = div.find_parent("section", class_="level3")
        level = section.select_one("p > .exercise-level").get_text()
        assert level in ("Easy", "Medium", "Hard")
        assert section.select(".callout details > summary"), section["id"]
        assert not section.select(".callout details[open]")


def test_no_other_page_loads_the_script(site):
    for page in site.pages:
        loads = "exercises.js" in (site.folder / page).read_text("utf-8")
        assert loads == (page == PAGE), page


def test_nothing_in_the_page_is_a_script_of_its_own(site):
    soup = BeautifulSoup((site.folder / PAGE).read_bytes(), "lxml")
    for tag in soup.select("main *"):
        assert not {name for name in tag.attrs if name.startswith("on")}, tag
        assert tag.name != "script", tag


# ---- Right, close and wrong ----


def test_right_answers_are_accepted_in_every_notation(exercises, visit):
    page = visit()
    written = [exercise for exercise in exercises if exercise.kind in WRITTEN]
    texts = {exercise.name: notations(exercise, exercise.answer) for exercise in written}
    told = {
        (name, text): verdict
        for name, said in write_each(page, texts).items()
        for text, (verdict, _) in zip(texts[name], said, strict=True)
    }
    for exercise in exercises:
        if exercise.kind not in WRITTEN:
            told[exercise.name, ""] = choose(page, exercise, exercise.answer[0])[0]
    assert len(told) > 150
    assert {key: verdict for key, verdict in told.items() if verdict != "right"} == {}
    expect(page.locator(".exercise-total")).to_have_text(
        f"{len(exercises)} of {len(exercises)} right."
    )


def test_a_rounded_answer_is_right_and_a_coarse_one_only_close(exercises, visit):
    page = visit()
    off = {
        exercise.name: [
            f"{exercise.answer[0] + share * exercise.within:.12g}" for share in (0.9, 1.2)
        ]
        for exercise in exercises
        if exercise.kind == "number"
    }
    for name, (near, coarse) in write_each(page, off).items():
        assert near[0] == "right", name
        assert coarse[0] == "close" and "digits" in coarse[1], (name, coarse)


def test_every_slip_is_recognised_by_its_name(exercises, visit):
    page = visit()
    written = write_each(
        page,
        {
            exercise.name: [notations(exercise, values)[0] for _, values in exercise.slips]
            for exercise in exercises
            if exercise.kind in WRITTEN
        },
    )
    wrong = {}
    for exercise in exercises:
        told = written.get(exercise.name) or [
            choose(page, exercise, values[0]) for _, values in exercise.slips
        ]
        for (text, _), said in zip(exercise.slips, told, strict=True):
            if said != ("close", f"Close. {text}"):
                wrong[exercise.name, text] = said
    assert wrong == {}


def test_the_other_choices_are_wrong_or_a_slip(exercises, visit):
    page = visit()
    for exercise in exercises:
        if exercise.kind == "yes-no":
            verdict, text = choose(page, exercise, 1 - exercise.answer[0])
            assert verdict == "wrong", exercise.name
            assert text.startswith(f"Wrong. Hint: {exercise.hints[0]}")


def test_a_wrong_answer_is_told_a_hint_and_then_a_stronger_one(exercises, visit):
    page = visit()
    tries = {}
    for exercise in exercises:
        if exercise.kind in WRITTEN:
            far = 100 * max(map(abs, exercise.answer)) + 77  # no slip gives that
            size = 1 if exercise.kind in ("number", "count") else len(exercise.answer)
            tries[exercise.name] = ["; ".join([f"{far + i:.0f}"] * size) for i in range(3)]
    hints = {exercise.name: exercise.hints for exercise in exercises}
    for name, told in write_each(page, tries).items():
        assert {verdict for verdict, _ in told} == {"wrong"}, name
        first, second = hints[name]
        assert [first in text for _, text in told] == [True, False, False]
        assert [second in text for _, text in told] == [False, True, True]
        assert ["solution" in text for _, text in told] == [False, True, True]


def test_the_right_numbers_in_another_order_and_the_other_sign_are_close(exercises, visit):
    page = visit()
    shift = next(exercise for exercise in exercises if exercise.name == "shift")
    assert "another order" in answer(page, shift, shift.answer[::-1])[1]
    hull = next(exercise for exercise in exercises if exercise.name == "hull")
    assert hull.answer == [3]
    told = write(page, "hull", "−3")  # a Unicode minus
    assert told == ("close", "Close. The sign is the other one.")


# ---- What is understood, and what is refused ----


@pytest.mark.parametrize(
    ("name", "value", "texts"),
    [
        ("split", 0.992, ["0,992", "124/125", "99.2%", "99,2 %", "1.24/1.25", "9.92e-1", ".992"]),
        ("warmup", 1 / 80, ["1/80", "1,25e-2", "1.25·10⁻²", "1.25×10^-2", "1.25 * 10^(-2)",
                            "12.5 × 10⁻³", "1.25 %", "√(1/6400)", "1/(8·10)", "5^-1/16"]),
        ("turn", 62.8318530718, ["62.8", "62,83", "+62.8", "20·3.14159"]),
        ("two-scores", [0.25, 0.75], ["1/4, 3/4", "¼; ¾", "0,25 0,75", "0,25; 0,75", "25%, 75%",
                                      "[1/4 3/4]", "{1/4; 3/4}", "(1/4), (3/4)", "0.25,0.75"]),
        ("layer-norm", [-(0.5**0.5), -(0.5**0.5), 2**0.5],
         ["−1/√2, −1/√2, √2", "-√2/2; -√2/2; √2", "−0,707; −0,707; 1,414", "-sqrt(1/2) -√0.5 √2",
          "[– 0.707, – 0.707, 1.414]", "-√(2)/2, -√(2)/2, 2/√2"]),
        ("projections", 37248, ["37,248", "37 248", "37.248", "37’248", "37248.0", "3.7248e4",
                                "4·9312", "37\u202f248"]),
        ("bert-tables", 23837184, ["23,837,184", "23 837 184", "23.837.184", "23'837'184"]),
    ],
)  # fmt: skip
def test_numbers_may_be_written_in_many_ways(exercises, visit, name, value, texts):
    exercise = next(exercise for exercise in exercises if exercise.name == name)
    assert exercise.answer == pytest.approx(
        numbers(list(value) if isinstance(value, tuple) else value)
    )
    page = visit()
    told = dict(zip(texts, write_all(page, name, texts), strict=True))
    assert {text: reply for text, reply in told.items() if reply[0] != "right"} == {}


def test_a_fraction_and_a_decimal_comma_are_understood_everywhere(exercises, visit):
    page = visit()
    texts = ["1/6", "0,25", "−3", "3e-7", "√8"]
    names = [exercise.name for exercise in exercises if exercise.kind == "number"]
    for name, told in write_each(page, dict.fromkeys(names, texts)).items():
        assert "refused" not in {verdict for verdict, _ in told}, (name, told)


def test_rubbish_is_refused_in_a_sentence_and_counts_as_no_try(exercises, visit):
    page = visit()
    asked = {}
    for exercise in exercises:
        if exercise.kind not in WRITTEN:
            continue
        thorough = exercise.name in ("divisor", "key-dim", "two-scores", "mask-shape")
        texts = list(RUBBISH if thorough else ("", "abc", "1e999", "1/0", "--3"))
        if exercise.kind in ("vector", "shape"):
            ones = ["1"] * (len(exercise.answer) - 1)
            texts = ["; ".join([text, *ones]) if text.strip() else text for text in texts]
        asked[exercise.name] = texts
    for name, told in write_each(page, asked).items():
        for text, (verdict, said) in zip(asked[name], told, strict=True):
            assert verdict == "refused", (name, text, said)
            assert re.fullmatch(r"[A-Z“].{15,}\.", said), said
        assert form(page, name).locator("input").get_attribute("aria-invalid") == "true"
    far = write(page, "divisor", "777")[1]
    divisor = next(exercise for exercise in exercises if exercise.name == "divisor")
    assert divisor.hints[0] in far


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("divisor", "", "Nothing is entered yet."),
        ("divisor", "eight", "“eight” is not a number: write digits only, such as 1/6 or 0.25."),
        ("divisor", "1e999", "That number is too large to be meant."),
        ("divisor", "1/0", "Nothing can be divided by zero."),
        ("divisor", "--3", "There are two signs in a row."),
        ("divisor", "8; 8", "These are 2 numbers; the question asks for one."),
        ("divisor", "8, 8", "These are 2 numbers; the question asks for one."),
        ("divisor", "8 8", "These are 2 numbers; the question asks for one."),
        ("key-dim", "16,5", "The answer is a whole number."),
        ("two-scores", "1/4", "This is one number; the question asks for 2. "
         "Separate them by semicolons: 1/4; 3/4."),
        ("two-scores", "1; 2; 3", "These are 3 numbers; the question asks for 2. "
         "Separate them by semicolons: 1/4; 3/4."),
        ("two-scores", "1;; 3", "A number is missing between two separators."),
        ("mask-shape", "(8, 0.5, 1, 50)", "A shape has whole numbers only, such as (2, 3, 5)."),
    ],
)  # fmt: skip
def test_a_refusal_says_what_is_missing(visit, name, text, said):
    assert write(visit(), name, text) == ("refused", said)


def test_a_choice_that_is_not_made_is_refused(visit):
    page = visit()
    form(page, "rotary").locator("button[type=submit]").click()
    assert reply(page, "rotary") == ("refused", "Nothing is chosen yet.")


# ---- Keyboard and screen reader ----


def test_an_exercise_is_answered_by_keyboard_alone(visit):
    page = visit()
    page.locator("#answer-divisor input").focus()
    page.keyboard.type("64")
    page.keyboard.press("Tab")
    assert focused(page)["text"] == "Check"
    page.keyboard.press("Space")
    assert reply(page, "divisor")[0] == "close"
    page.keyboard.press("Tab")
    assert focused(page)["text"] == "Hint"
    page.keyboard.press("Enter")
    assert reply(page, "divisor")[0] == "hint"
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Control+a")
    page.keyboard.type("8")
    page.keyboard.press("Enter")
    assert reply(page, "divisor")[0] == "right"
    assert focused(page)["tag"] == "INPUT"


def test_a_choice_is_made_by_the_arrow_keys(visit):
    page = visit()
    page.locator("#answer-rotary input").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert reply(page, "rotary")[0] == "right"


def focused(page: Page) -> dict:
    return page.evaluate(
        """() => { const part = document.activeElement, style = getComputedStyle(part);
        return {tag: part.tagName, text: part.textContent, width: parseFloat(style.outlineWidth),
                style: style.outlineStyle}; }"""
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_focus_is_seen(visit, scheme):
    page = visit(color_scheme=scheme)
    page.locator("#answer-two-scores input").focus()
    for _ in range(3):
        seen = focused(page)
        assert seen["style"] == "solid" and seen["width"] >= 2, seen
        page.keyboard.press("Tab")


def test_every_field_and_button_has_a_name_of_its_own(visit):
    page = visit()
    tree = page.locator("main").aria_snapshot()
    fields = re.findall(r'- textbox "([^"]+)"', tree)
    assert len(fields) > 25
    assert len(set(fields)) == len(fields)
    assert all(name.startswith(("Your answer, ", "Your notes: ")) for name in fields)
    buttons = re.findall(r'- button "((?:Check|Hint)[^"]*)"', tree)
    assert len(set(buttons)) == len(buttons) > 60


def test_targets_are_large_enough(visit):
    page = visit(width=390)
    sizes = page.evaluate(
        """() => [...document.querySelectorAll(
          ".exercise-form :is(button, input[type=text], label.exercise-option), " +
          ".exercise-teach :is(textarea, label.exercise-option), " +
          ".exercise-progress :is(button, li)")]
          .map((part) => [part.className + part.textContent, part.getBoundingClientRect()])
          .filter(([, box]) => box.width < 24 || box.height < 24).map(([name]) => name)"""
    )
    assert sizes == []


def test_what_the_page_says_is_announced_each_time(visit):
    page = visit()
    region = form(page, "divisor").locator(".exercise-feedback")
    assert region.get_attribute("role") == "status"
    assert region.get_attribute("aria-live") == "polite"
    assert region.text_content() == ""  # it is there, and empty, before it is needed
    page.evaluate(
        """() => { window.said = [];
        const region = document.querySelector("#answer-divisor .exercise-feedback");
        new MutationObserver(() => region.textContent && said.push(region.textContent))
          .observe(region, {childList: true}); }"""
    )
    write_all(page, "divisor", ["64"] * 3)
    said = page.evaluate("said")
    assert len(said) == 3 and len(set(said)) == 1


# ---- What is remembered ----


def test_progress_outlives_the_visit_until_it_is_forgotten(exercises, visit):
    page = visit()
    for exercise in exercises[:4]:
        answer(page, exercise, exercise.answer)
    choice = next(exercise for exercise in exercises if exercise.kind == "choice")
    choose(page, choice, choice.answer[0])
    page.locator("#teach-mask textarea").fill("a score of zero is a score")
    page.locator("#teach-mask input[type=checkbox]").nth(1).check()
    total = page.locator(".exercise-total")
    sentence = f"5 of {len(exercises)} right."
    expect(total).to_have_text(sentence)
    return_to(page)
    expect(total).to_have_text(sentence)
    first = form(page, exercises[0].name)
    expect(first.locator(".exercise-badge")).to_have_text("✓ solved")
    assert first.locator("input").input_value() == notations(exercises[0], exercises[0].answer)[0]
    assert page.locator("#answer-rotary input:checked").count() == 1
    assert page.locator("#teach-mask textarea").input_value() == "a score of zero is a score"
    boxes = page.locator("#teach-mask input[type=checkbox]")
    assert [box.is_checked() for box in boxes.all()][:3] == [False, True, False]
    counts = page.locator(".exercise-progress li span").all_text_contents()
    assert [int(text.split(" of ")[0]) for text in counts][:2] == [4, 1]

    page.once("dialog", lambda dialog: dialog.dismiss())
    page.get_by_role("button", name="Forget my progress").click()
    expect(total).to_have_text(sentence)
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Forget my progress").click()
    expect(total).to_have_text(f"0 of {len(exercises)} right.")
    expect(page.locator(".exercise-progress .exercise-feedback")).to_contain_text("Forgotten.")
    return_to(page)
    expect(total).to_have_text(f"0 of {len(exercises)} right.")
    assert page.locator("#teach-mask textarea").input_value() == ""
    assert page.locator("main input:checked").count() == 0
    assert page.locator("#answer-two-scores input").input_value() == ""


@pytest.mark.parametrize(
    "script",
    [
        "Object.defineProperty(window, 'localStorage', {get() { throw new Error('off'); }})",
        "Storage.prototype.setItem = () => { throw new Error('full'); }",
        "Object.defineProperty(window, 'localStorage', {value: undefined})",
    ],
)
def test_without_storage_answers_are_judged_all_the_same(visit, script):
    page = visit(script)
    assert write(page, "divisor", "8")[0] == "right"
    expect(page.locator(".exercise-total")).to_contain_text("This browser keeps nothing")


@pytest.mark.parametrize("kept", ["{{{", "null", "3", '{"right": null, "notes": 7}', "[]"])
def test_what_another_program_stored_does_no_harm(visit, kept):
    page = visit()
    page.evaluate("kept => localStorage.setItem('measured-transformer.exercises', kept)", kept)
    return_to(page)
    assert write(page, "divisor", "8")[0] == "right"
    return_to(page)
    expect(page.locator(".exercise-total")).to_contain_text("1 of ")


def test_nothing_is_sent_anywhere(exercises, visit):
    page = visit()
    page.wait_for_load_state("networkidle")  # the browser fetches the page's icon late
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    for exercise in exercises[:3]:
        answer(page, exercise, exercise.answer)
    write(page, "divisor", "64")
    page.locator("#teach-mask textarea").fill("notes")
    page.wait_for_timeout(200)
    assert asked == []
    assert page.url.endswith(PAGE)


# ---- Without scripts, and on paper ----


def test_without_scripts_question_and_folded_answer_are_there(exercises, visit):
    page = visit(java_script_enabled=False)
    assert page.locator(".exercise-form").count() == 0
    for exercise in exercises[:5]:
        section = page.locator(f"section:has(> .cell #answer-{exercise.name})")
        assert section.locator("p").first.is_visible()
        assert not section.locator(".callout-body").is_visible()
        section.locator("summary").click()
        assert section.locator(".callout-body").is_visible()
    assert page.locator("#answer-rotary li").count() == 4


def test_paper_shows_the_questions_only(visit):
    page = visit()
    write(page, "divisor", "64")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("#sec-ex-divisor > p").first.is_visible()
    assert page.locator("#answer-rotary label").first.is_visible()
    for gone in (".callout", "input[type=text]", "textarea", "button", ".exercise-feedback"):
        shown = [part for part in page.locator(f"main {gone}").all() if part.is_visible()]
        assert shown == [], gone


@pytest.mark.parametrize("width", [360, 390])
def test_a_phone_needs_no_sideways_scrolling(exercises, visit, width):
    page = visit(width=width)
    for exercise in exercises[:6]:
        for _, values in exercise.slips[:1]:
            answer(page, exercise, values)
    wider = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(wider) == 0
