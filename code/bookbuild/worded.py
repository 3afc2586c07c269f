"""Numbers that prose says in words: marked with the ledger entry they rest on, and checked.

    The larger model costs [ninefold]{.worded data-claim="ex-cost-triple"}.
    [Nearly two thirds]{.worded data-claim="ed-layer-weights" data-over="ed-layer-all"} of it
    is at most [half a percent]{.worded data-claim="mask-spread" data-at="2"} of the largest

`data-over` names an entry to divide by; `data-at` the place in an array, from 0, as `1,0` for two
axes; without it every number of an array must fit. An entry in percent (format `.1%`) is a share of
1, and `bookbuild.words` says which values the words allow. It is plain Markdown, so a changed word
executes nothing; `claims.lua` makes it a claim like those of `say`, here and under Quarto.

Digits may stand in such a span too: they are then compared to half a unit of their last digit.
Words that carry a percentage or end in -fold must be marked; `unmarked` lists what else might be.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bookbuild.problems import Problem
from bookbuild.reading import ATTRIBUTE, CODE, WORDED, passages, visible_markdown
from bookbuild.source import Source
from bookbuild.words import disagreement
from ledger.entries import Entry

ATTRIBUTES = ("data-claim", "data-over", "data-at")
BY_HAND = re.compile(r"\{[^{}]*\.claim\b[^{}]*\}")
COUNT = (
    r"(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty|forty"
    r"|fifty|sixty|seventy|eighty|ninety|hundred|thousand|half an?|a few|several)"
)
STRICT = re.compile(
    rf"\b{COUNT}-?fold\b|\b(?:{COUNT}|quarter of an?|third of an?|tenth of an?)\s+(?:of\s+a\s+)?"
    r"per\s?cent\b",
    re.IGNORECASE,
)
CANDIDATE = re.compile(
    rf"\b(?:{COUNT}|a|an|nearly|about|than)\s+(?:halves|thirds?|quarters?|fifths?|sixths?|sevenths?"
    r"|eighths?|ninths?|tenths?|hundredths?|thousandths?)\b(?!\s+(?:key|token|row|panel|case|time|of\s+"
    rf"(?:them|three)))|\b(?:{COUNT}\s+times|twice|thrice|half)\s+(?:as|the|more|less|of)\b"
    r"|\borders?\s+of\s+magnitude\b|\bhalf\b(?=\s+(?:the|of|as))|\bdozens?\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Worded:
    """A marked number in words: the words, the entries they rest on, the line."""

    text: str
    line: int
    claim: str
    over: str = ""
    at: str = ""

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.claim, self.over)))


def worded_of(source: Source) -> Iterator[Worded]:
    """The marked words of a chapter, in order. Raises nothing: what is wrong is found later."""
    for text, line in visible_markdown(source):
        for found in WORDED.finditer(CODE.sub(lambda one: " " * len(one[0]), text)):
            attributes = {key: value.strip("\"'") for key, value in ATTRIBUTE.findall(found[2])}
            yield Worded(
                re.sub(r"[*_]", "", found[1]),
                line + text.count("\n", 0, found.start()),
                attributes.get("data-claim", ""),
                attributes.get("data-over", ""),
                attributes.get("data-at", ""),
            )


def check_words(source: Source, ledger: Mapping[str, Entry]) -> Iterator[Problem]:
    """A problem for each marked number that its entry does not bear out, or that is not marked."""
    for one in worded_of(source):
        if said := wrong(one.text, one.claim, one.over, one.at, ledger):
            yield Problem(source.path, one.line, said)
    for text, line in visible_markdown(source, alternatives=True):
        if WORDED.search(text):
            yield Problem(source.path, line, "an alternative text holds no marks; say it elsewhere")
    for text, line in visible_markdown(source):
        blanked = CODE.sub(lambda one: re.sub(r"[^\n]", " ", one[0]), text)
        for found in BY_HAND.finditer(blanked):
            at = line + text.count("\n", 0, found.start())
            yield Problem(source.path, at, "a claim is made by say, or is a span {.worded …}")
    for passage in passages(source):
        for found in STRICT.finditer(passage.text):
            yield Problem(
                source.path,
                passage.line_at(found.start(), found.group()),
                f'"{found.group()}" carries a number; mark it, '
                f'[{found.group()}]{{.worded data-claim="id"}}, or say it',
            )


def wrong(text: str, claim: str, over: str, at: str, ledger: Mapping[str, Entry]) -> str | None:
    """What is wrong with words that rest on entries of the ledger, or None."""
    values = {id: entry.value for id, entry in ledger.items() if id in (claim, over)}
    exact = not over and claim in ledger and ledger[claim].tolerance == 0
    return disagreement(text, claim, over, at, values, exact)


def unmarked(source: Source) -> Iterator[tuple[int, str]]:
    """Lines and words that might carry a measured number. Information, not a problem."""
    for passage in passages(source):
        for found in CANDIDATE.finditer(passage.text):
            yield passage.line_at(found.start(), found.group()), " ".join(found.group().split())
