r"""Formulas as browsers draw them by themselves: MathML, set as TeX would set it.

Pandoc writes MathML that says the right thing. What browsers make of it differs from TeX in small
ways, which are mended here, at build time, so that no page needs a script for its formulas and none
shows its source: letters of a name stand as one word (which screen readers then say as one), names
of functions keep their distance, signs in raised and lowered places stand close, brackets grow only
where `\left` or `\big` says so, and the columns of an aligned formula meet at its sign.

The TeX stays in the page as an annotation, which no browser shows; the search, the previews and the
check of the verified numbers read it.
"""

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator

FORMULA = re.compile(r"<math\b[^>]*>.*?</math>", re.DOTALL)
APPLY = "\u2061"  # the invisible sign between a function and what it is applied to
THIN = "0.167em"  # TeX's distance between the name of a function and what stands beside it
RATIO = "0.278em"  # and on either side of a colon
SCRIPTS = {"msub": 1, "msup": 1, "msubsup": 1, "munder": 1, "mover": 1, "munderover": 1}
HOLDERS = {"mrow", "mtd", "mstyle", "mpadded", "msqrt"}


def set_formulas(html: str) -> str:
    """HTML with each formula of pandoc's in a span `.math`, `.inline` or `.display`."""
    return FORMULA.sub(lambda found: set_formula(found[0]), html)


def set_formula(mathml: str) -> str:
    """One formula: `<math>` as pandoc writes it -> the span that holds it on a page."""
    math = ET.fromstring(mathml.replace(' xmlns="http://www.w3.org/1998/Math/MathML"', "", 1))
    tex = math.findtext("semantics/annotation") or ""
    kind = "display" if math.get("display") == "block" else "inline"
    if kind == "inline":
        math.attrib.pop("display", None)
    for part in list(math.iter()):
        _join_letters(part)
        if "{,}" in tex:
            _join_thousands(part)
        _align(part)
        if r"\left" not in tex and not part.get("minsize") and part.get("stretchy") == "true":
            part.set("stretchy", "false")
    for part in list(math.iter()):
        if part.tag in HOLDERS:
            _space_functions(part)
    for row in math.iter("mrow"):
        _space_ends(row)
    for script in _scripts(math):
        for sign in script.iter("mo"):
            sign.set("lspace", "0")
            sign.set("rspace", "0")
    drawn = ET.tostring(math, encoding="unicode", short_empty_elements=False)
    return f'<span class="math {kind}">{drawn}</span>'


def _scripts(math: ET.Element) -> Iterator[ET.Element]:
    """What stands raised or lowered."""
    for part in math.iter():
        if part.tag in SCRIPTS:
            yield from part[SCRIPTS[part.tag] :]


def _join_letters(row: ET.Element) -> None:
    """Upright letters side by side are a word: `<mi>softmax</mi>` for seven elements."""
    joined: list[ET.Element] = []
    for part in row:
        before = joined[-1] if joined else None
        if before is not None and _is_upright(before) and _is_upright(part):
            before.text = (before.text or "") + (part.text or "")
        else:
            joined.append(part)
    row[:] = joined
    for part in joined:  # a word is upright by itself, a single letter is not
        if part.tag == "mi" and (part.get("mathvariant") != "normal" or len(part.text or "") > 1):
            part.attrib.pop("mathvariant", None)


def _is_upright(part: ET.Element) -> bool:
    # A letter that was joined already has lost the mark; several letters are always upright.
    text = part.text or ""
    return part.tag == "mi" and text.isalpha() and part.get("mathvariant") == "normal"


def _join_thousands(row: ET.Element) -> None:
    """`10{,}000` is one number; only its source tells it from a list of two."""
    parts = list(row)
    at = 0
    while at + 2 < len(parts):
        number, comma, more = parts[at : at + 3]
        if (
            (number.tag, comma.tag, more.tag) == ("mn", "mo", "mn")
            and comma.text == ","
            and re.match(r"\d{3}(?!\d)", more.text or "")
        ):
            number.text = f"{number.text},{more.text}"
            del parts[at + 1 : at + 3]
        else:
            at += 1
    row[:] = parts


def _align(cell: ET.Element) -> None:
    """Classes for what pandoc writes as styles, which the pages' policy forbids."""
    if cell.tag != "mtd":
        return
    cell.attrib.pop("style", None)
    side = cell.get("columnalign")
    if side in ("left", "right"):
        cell.set("class", f"side-{side}")


def _space_functions(row: ET.Element) -> None:
    """A thin space on either side of `log`, but for brackets and signs, which bring their own."""
    spaced: list[ET.Element] = []
    parts = list(row)
    for place, part in enumerate(parts):
        is_function = part.tag != "mo" and APPLY in "".join(_signs(part))
        before = parts[place - 1] if place else None
        if is_function and before is not None and _stands_close(before, left=True):
            spaced.append(ET.Element("mspace", {"width": THIN}))
        spaced.append(part)
        after = parts[place + 1] if place + 1 < len(parts) else None
        # What another function stands before is its space.
        another = after is not None and APPLY in "".join(_signs(after))
        if is_function and after is not None and not another and _stands_close(after, left=False):
            spaced.append(ET.Element("mspace", {"width": THIN}))
    row[:] = spaced


def _space_ends(row: ET.Element) -> None:
    """A colon between two things is a ratio; a sign that ends a row has nothing behind it."""
    parts = list(row)
    for part in parts[1:-1]:
        if part.tag == "mo" and part.text == ":":
            part.set("lspace", RATIO)
            part.set("rspace", RATIO)
    if len(parts) > 1 and parts[-1].tag == "mo" and parts[-1].get("form") is None:
        parts[-1].set("rspace", "0")


def _signs(part: ET.Element) -> Iterator[str]:
    """The operators that an element consists of, as seen from outside: not those of a fraction."""
    if part.tag == "mo":
        yield part.text or ""
    elif part.tag in SCRIPTS:
        yield from _signs(part[0])
    elif part.tag == "mrow" and len(part) == 2 and part[0].tag in {"mi", "msub", "msup"}:
        yield from _signs(part[1])


def _stands_close(part: ET.Element, *, left: bool) -> bool:
    """Whether an element brings no distance of its own beside a function's name."""
    if part.tag == "mspace" or (part.tag == "mi" and part.text == "−"):
        return False
    if part.tag == "mrow" and len(part):
        first = part[-1] if left else part[0]
        if first.tag == "mo" and first.text != APPLY:
            return left and first.get("form") == "postfix"
        return True
    if part.tag == "mo" and part.text != APPLY:
        return left and part.get("form") == "postfix"
    return True
