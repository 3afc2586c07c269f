"""Read rendered pages, ours or Quarto's, and compare every verified number with the ledger.

The freeze says what each page must state: which numbers, how often, in which formulas. The page is
held to it digit for digit, and the freeze itself to the ledger. Nothing of the pages' making is
used, neither pandoc nor the filters, and the standard library only: Quarto's hook calls this.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bookbuild.claims_page import Claim, Page, read_page, tex
from bookbuild.freeze import number_of
from bookbuild.kept import Kept, code_digest, digest
from bookbuild.words import disagreement
from ledger.entries import LEDGER, Entry, LedgerError, load_ledger
from ledger.session import Said
from ledger.values import Value, deviation

CONFIG = "_quarto.yml"
FREEZE = "_freeze"
FENCED = re.compile(r"^([ \t]*)(`{3,}|~{3,})(?![^\n]*\{=html\}).*?^\1\2[`~]*[ \t]*$", re.S | re.M)
MENU = re.compile(r"<nav\b.*?</nav>", re.S)
CODE = re.compile(r"(?<!`)(`+)(?!`)(?:.+?)(?<!`)\1(?!`)", re.S)
CLAIM_END = re.compile(r'\]\{\.claim data-claim="([^"]+)" title="[^"]*"\}')
ESCAPED = re.compile(r"(?<!\\)(?:\\\\)*\\$")  # what ends here takes the next character literally
MARK = re.compile("\ue000(\\d+)\ue001")
WORDED = re.compile(r"\[([^\[\]]*)\](\{[^{}]*\.worded\b[^{}]*\})")
ATTRIBUTE = re.compile(r"""(data-[\w-]+)=(?:"([^"]*)"|'([^']*)'|([^\s}"']+))""")
MATH = re.compile(
    r"\$\$(.+?)\$\$|(?<![\\$])\$(?=\S)((?:\\.|[^$\\\n]|\n(?!\s*\n))+?)(?<=\S)\$(?!\d)", re.S
)


@dataclass(frozen=True)
class Expected:
    """What the freeze says that a page states: how often each claim, and which formulas."""

    claims: Counter[tuple[str, str]]  # (kind, ids and text)
    formulas: Counter[str]


def problems_of_site(root: Path, site: Path, freeze: Path | None = None) -> list[str]:
    """What is wrong with the pages in `site`, as `page.html:line: text`, for the book in `root`.

    Pages that are not there are passed over, so that one rendered page can be checked by itself.
    """
    if not any(site.rglob("*.html")):
        return [f"{site.name}:0: holds no page"]
    try:
        found = list(wrong_claims(root, site, freeze))
    except LedgerError as error:
        return str(error).splitlines()
    return [f"{page}:{line}: {text}" for page, line, text in found]


def count_claims(site: Path) -> tuple[int, int]:
    """How many verified numbers and how many pages a site has."""
    pages = [read_page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))]
    return sum(not claim.repeated for page in pages for claim in page.claims), len(pages)


def wrong_claims(
    root: Path, site: Path, freeze: Path | None = None, kept: Kept | None = None
) -> Iterator[tuple[str, int, str]]:
    """The same as (page, line, text).

    kept: what was found on pages earlier, so that the same page is not read again for the same
        freeze and ledger.
    """
    ledger = load_ledger(root / LEDGER)
    kept = kept or Kept(None)
    chapters = load_chapters(root, freeze or root / FREEZE)
    frozen = {row["id"]: row for numbers, _ in chapters.values() for row in numbers["numbers"]}
    for id, row in frozen.items():
        if said := wrong_row(row, ledger.get(id)):
            yield f"{FREEZE}: {id}", 0, said
    known = _known(root, frozen)
    for path in sorted(site.rglob("*.html")):
        name = path.relative_to(site).as_posix()
        if name.startswith("site_libs/"):
            continue
        text = path.read_text(encoding="utf-8")
        chapter = name.removesuffix(".html") + ".qmd"
        numbers, markdown = chapters.get(chapter, ({"numbers": []}, None))
        if markdown is None and (root / chapter).is_file():
            markdown = (root / chapter).read_text(encoding="utf-8")
        if not any(mark in text for mark in ("claim", "number-")) and markdown is None:
            continue
        own = sorted(row["id"] for row in numbers["numbers"])

        def found(text: str = text, own: list[str] = own, markdown: str | None = markdown) -> list:
            page = read_page(MENU.sub(_unless_it_claims, text))
            wrong = list(wrong_on_page(page, ledger, frozen, set(own)))
            if markdown is not None:
                wrong += missing_or_twice(page, expected_of(markdown))
            return wrong

        for line, said in kept.get(digest(known, text, json.dumps(markdown), *own), found):
            yield name, line, said


def _unless_it_claims(menu: re.Match[str]) -> str:
    """A menu that claims nothing is passed over: in a long book it is longer than the page."""
    return menu[0] if "claim" in menu[0] or "math" in menu[0] else "\n" * menu[0].count("\n")


def _known(root: Path, frozen: Mapping[str, Any]) -> str:
    """Hash of all that a page is held to, besides its own source; and of the code that does it."""
    here = Path(__file__)
    ours = [here.with_name(f"{name}.py") for name in ("claims_check", "claims_page", "words")]
    rules = [path for path in (root / LEDGER, *ours) if path.is_file()]
    return digest(code_digest(rules), json.dumps(frozen, sort_keys=True))


def load_chapters(root: Path, freeze: Path) -> dict[str, tuple[dict[str, Any], str]]:
    """Path of each frozen chapter of the book -> its numbers.json and its Markdown."""
    config = (root / CONFIG).read_text(encoding="utf-8")
    found = {}
    for path in sorted(freeze.rglob("execute-results/numbers.json")):
        numbers = json.loads(path.read_text(encoding="utf-8"))
        if numbers["chapter"] in config:
            html = json.loads(path.with_name("html.json").read_text(encoding="utf-8"))
            found[numbers["chapter"]] = numbers, html["result"]["markdown"]
    return found


# The freeze against the ledger.


def wrong_row(row: Mapping[str, Any], entry: Entry | None) -> str | None:
    """What is wrong with a row of numbers.json, or None."""
    if entry is None:
        return "the ledger has no such entry"
    value = value_of(row)
    off = deviation(entry.value, value)
    if not off <= entry.tolerance:
        return f"was computed as {row['value']}, which is outside {entry.value} ± {entry.tolerance}"
    for key, shown in (("shown", entry.show(value)), ("expected", entry.show(entry.value))):
        if row[key] != shown:
            return f"is {key} as {row[key]}, where the ledger gives {shown}"
    return None


def value_of(row: Mapping[str, Any]) -> Value:
    """The computed value of a row of numbers.json."""
    return number_of(row["value"])


# A page against the ledger.


def wrong_on_page(
    page: Page, ledger: Mapping[str, Entry], frozen: Mapping[str, Any], own: set[str]
) -> Iterator[tuple[int, str]]:
    """Claims whose text, title or id is not what the ledger and the freeze say."""
    for claim in page.claims:
        unknown = [id for id in (*claim.ids, claim.over) if id and id not in ledger]
        if unknown or not claim.ids:
            yield claim.line, f"{', '.join(unknown) or claim.text} is no entry of the ledger"
            continue
        shown = [_shown(id, ledger[id], frozen, own) for id in claim.ids]
        if claim.kind == "worded":
            said = _wrong_words(claim, ledger, frozen)
        elif claim.kind == "formula":
            said = _wrong_formula(claim, shown)
        else:
            said = None
            if _folded(claim.text) not in map(_folded, shown[0]):
                said = f"{claim.ids[0]} reads {claim.text!r}, the ledger says {shown[0][0]!r}"
        if said:
            yield claim.line, said
        title = _title(claim, ledger, frozen)
        if title is not None and claim.title and _folded(claim.title) != _folded(title):
            yield claim.line, f"{claim.ids[0]} is described as {claim.title!r}, not {title!r}"
        elif not claim.title:
            yield claim.line, f"{claim.ids[0]} has lost its description"
    for id, (line, cells) in page.rows.items():
        row = frozen.get(id)
        if row is None:
            yield line, f"{id} is listed, but no chapter of the freeze computes it"
            continue
        for at, key in ((0, "shown"), (2, "expected")):
            got = cells[at] if at < len(cells) else ""
            if _folded(got) != _folded(row[key]):
                yield line, f"{id} is listed as {got!r}, the freeze says {row[key]!r}"
    if page.rows:
        for id in frozen.keys() - page.rows.keys():
            yield 0, f"{id} is missing from the table of verified numbers"


def _shown(id: str, entry: Entry, frozen: Mapping[str, Any], own: set[str]) -> list[str]:
    """How a page may print an entry: as its chapter computed it, elsewhere as the ledger has it."""
    expected = entry.show(entry.value)
    return [entry.show(value_of(frozen[id])), expected] if id in own else [expected]


def _wrong_words(
    claim: Claim, ledger: Mapping[str, Entry], frozen: Mapping[str, Any]
) -> str | None:
    values = {id: value_of(frozen[id]) if id in frozen else ledger[id].value
              for id in filter(None, (claim.ids[0], claim.over))}  # fmt: skip
    exact = not claim.over and ledger[claim.ids[0]].tolerance == 0
    return disagreement(claim.text, claim.ids[0], claim.over, claim.at, values, exact)


def _wrong_formula(claim: Claim, shown: Sequence[Sequence[str]]) -> str | None:
    for id, texts in zip(claim.ids, shown, strict=True):
        if not any(_holds(claim.text, tex(text)) for text in texts):
            return f"the formula {claim.text!r} does not hold {tex(texts[0])!r} of {id}"
    return None


def _holds(formula: str, number: str) -> bool:
    """Whether a number stands in a formula as a whole: no digit or sign goes on before or after."""
    before = r"(?<![\d.,])" + ("" if number.startswith("-") else r"(?<!-)")
    return bool(re.search(before + re.escape(number) + r"(?![\d]|[.,]\d|\{,\})", formula))


def _title(claim: Claim, ledger: Mapping[str, Entry], frozen: Mapping[str, Any]) -> str | None:
    if claim.kind != "worded":
        return "; ".join(title_of(ledger[id]) for id in claim.ids)
    rows = [frozen.get(id) for id in filter(None, (claim.ids[0], claim.over))]
    return "; divided by: ".join(map(_described, rows)) if all(rows) else None


def title_of(entry: Entry) -> str:
    """The description that `say` gives to a number."""
    return re.search(r' title="([^"]*)"', Said(entry, "")._repr_markdown_())[1]


def _described(row: Mapping[str, Any]) -> str:
    band = "exactly" if row["tolerance"] == "exact" else f"within {row['tolerance']}"
    return (
        f"{row['statement']}: {row['shown']}. Expected {row['expected']}, {band}: {row['reason']}. "
        f"Source: {row['source']}"
    )


# A page against its own source.


def expected_of(markdown: str) -> Expected:
    """What a page must state, from its Markdown after execution."""
    text, marks = _marked(CODE.sub("", FENCED.sub("", markdown)))
    formulas: Counter[str] = Counter()
    claims: Counter[tuple[str, str]] = Counter()

    def formula(found: re.Match[str]) -> str:
        if MARK.search(found[0]):
            body = found[1] or found[2]
            formulas[_tight(MARK.sub(lambda one: tex(marks[int(one[1])][1]), body))] += 1
        return ""

    for place in MARK.findall(MATH.sub(formula, text)):
        id, shown = marks[int(place)]
        claims["claim", f"{id} {_folded(shown)}"] += 1
    for found in WORDED.finditer(text):
        attributes = {one[0]: "".join(one[1:]) for one in ATTRIBUTE.findall(found[2])}
        words = re.sub(r"[*_]", "", found[1])
        claims["worded", f"{attributes.get('data-claim', '')} {_folded(words)}"] += 1
    return Expected(claims, formulas)


def _marked(text: str) -> tuple[str, list[tuple[str, str]]]:
    """Each claim that `say` left as a sign \ue000number\ue001, and its id and text by number."""
    marks: list[tuple[str, str]] = []
    parts, end = [], 0
    for found in CLAIM_END.finditer(text):
        start = _opening(text, found.start())
        marks.append(
            (found[1], re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", text[start + 1 : found.start()]))
        )
        parts += [text[end:start], f"\ue000{len(marks) - 1}\ue001"]
        end = found.end()
    return "".join([*parts, text[end:]]), marks


def _opening(text: str, closing: int) -> int:
    """Where the bracket opens that closes there."""
    depth = 0
    for at in range(closing, -1, -1):
        if text[at] in "[]" and not ESCAPED.search(text, max(0, at - 9), at):
            depth += 1 if text[at] == "]" else -1
            if depth == 0:
                return at
    return closing


def missing_or_twice(page: Page, expected: Expected) -> Iterator[tuple[int, str]]:
    """Claims and formulas that the page lacks, or states more often than its source."""
    found: Counter[tuple[str, str]] = Counter()
    lines: dict[tuple[str, str], int] = {}
    for claim in page.claims:
        if claim.kind != "formula" and not claim.repeated:
            key = claim.kind, f"{claim.ids[0] if claim.ids else ''} {_folded(claim.text)}"
            found[key] += 1
            lines[key] = claim.line
    for key, count in (expected.claims - found).items():
        yield 0, f"{key[1]} is said in the source, but missing from the page{_times(count)}"
    for key, count in (found - expected.claims).items():
        yield lines[key], f"{key[1]} stands on the page, but not in its source{_times(count)}"
    drawn = Counter(map(_tight, page.formulas))
    for formula, count in expected.formulas.items():
        if drawn[formula] < count:
            yield 0, f"the formula {formula} with a verified number is missing or changed"


def _times(count: int) -> str:
    return f" ({count} times)" if count > 1 else ""


def _folded(text: str) -> str:
    """Text with each run of spaces and line breaks as one space; no-break spaces stay."""
    return re.sub(r"[ \t\r\n]+", " ", text).strip(" ")


def _tight(formula: str) -> str:
    """TeX without the spaces that mean nothing, and without the number Quarto adds to it."""
    formula = re.sub(r"^\\[(\[]|\\[)\]]$", "", formula.strip())
    return re.sub(r"\\tag\{[^}]*\}|\\qquad\([\w.]+\)$|\s+", "", formula)
