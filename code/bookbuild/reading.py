"""What a reader of the book sees as text, with the line of the source that each piece stands on.

Code, attributes that only the build reads, addresses and citation keys are blanked, not removed, so
that every character keeps its place. The text is that of prose, headings, the front matter,
captions, alternative texts, callout titles, tables and formulas, and of string literals that a cell
shows as Markdown or writes into a figure.
"""

import ast
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from html import unescape

from bookbuild.source import FENCE, Cell, Prose, Source

VISIBLE_OPTIONS = ("fig-cap", "fig-subcap", "fig-alt", "tbl-cap", "lst-cap", "code-summary")
VISIBLE_ATTRIBUTES = {*VISIBLE_OPTIONS, "title", "alt", "aria-label"}
VISIBLE_META = ("title", "subtitle", "description")
# Calls of a cell whose texts become prose or stand in a figure, and keywords of any call. Labels of
# ticks are places on an axis, not results.
SHOWING = {
    "Markdown", "print", "annotate", "text", "figtext", "title", "suptitle", "xlabel", "ylabel",
    "set_title", "set_xlabel", "set_ylabel", "set_label",
}  # fmt: skip
SHOWN = {"label", "title", "xlabel", "ylabel", "suptitle"}
STRING = re.compile(r"""(["'])((?:\\.|(?!\1)[^\\\n])*)\1""")
# What a number that looks measured has at the least: to parse the code of every cell takes long.
HINT = re.compile(
    r"\d[.,٫]\d|\d{5}|(?<!\w)\.\d|\d[ \u00a0\u2009\u202f\u2007’']\d{3}|[½⅓⅔¼¾⅕-⅞⅐⅑⅒]|[≈≃∼~±×]\s*\d"
    r"|\d\s?(?:[%‰×x°⁄/^*kKMBGT⁺⁻⁰¹²³⁴-⁹]|[eE][-+−]?\d|per|pct|thou|mill|bill|bn|trill|doz|[nµμm]s|giga"
    r"|mega|-?fold|\s*times)|&#"
)
NO_TEXT = re.compile(r"\{[^{}]*\}|#\w{6}\b")

MATH = re.compile(
    r"\$\$.+?\$\$|(?<![\\$])\$(?=\S)(?:\\.|[^$\\\n]|\n(?!\s*\n))+?(?<=\S)\$(?!\d)", re.S
)
WORDED = re.compile(r"\[([^\[\]]*)\](\{[^{}]*\.worded\b[^{}]*\})")
CODE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.S)
VALUE = r"""(?:"[^"]*"|'[^']*'|[^\s}"']+)"""
ATTRIBUTES = re.compile(
    rf"(?<=[\])`:\s}}])\{{(?:\s*(?:[.#][\w:.-]+|=\w+|[\w-]+={VALUE}))+\s*\}}", re.S
)
ATTRIBUTE = re.compile(rf"([\w-]+)=({VALUE})", re.S)
UNSEEN = (
    re.compile(r"<!--.*?-->", re.S),
    re.compile(r"<?https?://[^\s>)\]]+>?"),
    re.compile(r"\barXiv:\s?[\d.]+(?:v\d+)?|\bdoi:\s?\S+|\b10\.\d{4,}/\S+"),
    re.compile(r"(?<![\w.])@[\w:.#$%&+?<>~/-]*\w"),
    re.compile(r"</?[a-zA-Z][^<>]*>"),
)
TARGET = re.compile(r"""\]\((<[^>]*>|[^\s()]*(?:\([^\s()]*\)[^\s()]*)*)(\s+"[^"]*")?\)""")
# In a formula a few commands mean what prose writes as a sign.
COMMANDS = {
    r"\times": "×", r"\cdot": "×", r"\approx": "≈", r"\sim": "≈", r"\simeq": "≈", r"\pm": "±",
    r"\%": "%", r"\,": "\u2009", r"\;": "\u2009", r"\:": "\u2009", r"\ ": "\u2009",
}  # fmt: skip
COMMAND = re.compile(r"\\(?:[a-zA-Z]+|[^a-zA-Z\s]| )")
ENTITY = re.compile(r"&(?:#\d+|#[xX][0-9a-fA-F]+|[a-zA-Z]+\d*);|\\(?=[.,%])")


@dataclass(frozen=True)
class Passage:
    """Some text, and where it comes from. `formulas` are the stretches that are mathematics."""

    text: str
    line: int  # of its first character
    formulas: tuple[tuple[int, int], ...] = ()
    written: tuple[str, ...] = ()  # the lines of code that spell the text, which breaks elsewhere

    def line_at(self, place: int, said: str = "") -> int:
        """Line of the source on which the character at `place` stands, the first of `said`."""
        if self.written:
            holds = (number for number, line in enumerate(self.written) if said in line)
            return self.line + next(holds, 0)
        return self.line + self.text.count("\n", 0, place)

    def in_formula(self, place: int) -> bool:
        at = bisect_right(self.formulas, (place, len(self.text)))
        return at > 0 and self.formulas[at - 1][1] > place


def passages(source: Source) -> Iterator[Passage]:
    """All that a reader of the chapter sees as text."""
    lines = source.text.split("\n")
    for place, piece in enumerate(source.pieces):
        if isinstance(piece, Cell):
            yield from _options(lines, piece)
            yield from _literals(piece)
        elif place == 0 and piece.text.startswith("---"):
            yield from _fields(lines, 1, piece.text.count("\n"), VISIBLE_META, "")
        elif isinstance(piece, Prose):
            yield markdown(without_fences(piece.text), piece.line)


def visible_markdown(source: Source, alternatives: bool = False) -> Iterator[tuple[str, int]]:
    """Prose and captions as Markdown, each with its first line; or only alternative texts."""
    lines = source.text.split("\n")
    for place, piece in enumerate(source.pieces):
        if isinstance(piece, Cell):
            for key, value, line in _written(lines, *_option_lines(lines, piece), "#| "):
                if key in VISIBLE_OPTIONS and (key == "fig-alt") == alternatives:
                    yield value, line
        elif not alternatives and not (place == 0 and piece.text.startswith("---")):
            yield without_fences(piece.text), piece.line


def without_fences(text: str) -> str:
    """Blank the fenced code of a Markdown text."""
    out, fence = [], None
    for line in text.split("\n"):
        found = FENCE.match(line)
        if fence is None and found:
            fence = re.compile(rf"\s*{re.escape(found['fence'][0])}{{{len(found['fence'])},}}\s*")
            out.append("")
        elif fence is None:
            out.append(line)
        else:
            out.append("")
            if fence.fullmatch(line):
                fence = None
    return "\n".join(out)


def markdown(text: str, line: int) -> Passage:
    """A Markdown text without fences: what is seen of it."""
    if "`" in text:
        text = CODE.sub(_blank, text)
    math = [found.span() for found in MATH.finditer(text)] if "$" in text else []
    prose = _seen(MATH.sub(_blank, text) if math else text)
    parts, end = [], 0
    for start, stop in math:
        parts += [prose[end:start], _formula(text[start:stop])]
        end = stop
    return Passage("".join([*parts, prose[end:]]), line, tuple(math))


def _seen(text: str) -> str:
    text = WORDED.sub(_blank, text)
    text = ATTRIBUTES.sub(_attributes, text)
    text = TARGET.sub(lambda found: "](" + _blank(found[1]) + (found[2] or "") + ")", text)
    for pattern in UNSEEN:
        text = pattern.sub(_blank, text)
    return ENTITY.sub(_entity, text) if "&" in text or "\\" in text else text


def _attributes(found: re.Match[str]) -> str:
    """Blank a block of attributes, but for the values that a reader sees or hears."""
    text = found.group()
    out = list(_blank(text))
    for one in ATTRIBUTE.finditer(text):
        if one[1] in VISIBLE_ATTRIBUTES:
            out[one.start(2) : one.end(2)] = one[2].strip("\"'").center(len(one[2]))
    return "".join(out)


def _formula(text: str) -> str:
    """TeX, its commands blanked or replaced by their signs, each as wide as it was."""
    text = text.replace("{,}", ",\u2060\u2060")
    return COMMAND.sub(_command, text)


def _command(found: re.Match[str]) -> str:
    text = found.group()
    sign = COMMANDS.get(text, "")
    return sign.ljust(len(text), "\u2060" if sign == "\u2009" else " ")


def _entity(found: re.Match[str]) -> str:
    """A character that is spelled out; word joiners fill the place it took."""
    text = found.group()
    return (unescape(text) if text != "\\" else "").ljust(len(text), "\u2060")[: len(text)]


def _blank(found: re.Match[str] | str) -> str:
    text = found if isinstance(found, str) else found.group()
    return re.sub(r"[^\n]", " ", text)


# A cell.


def _options(lines: list[str], cell: Cell) -> Iterator[Passage]:
    if any(key in cell.options for key in VISIBLE_OPTIONS):
        yield from _fields(lines, *_option_lines(lines, cell), VISIBLE_OPTIONS, "#| ")


def _option_lines(lines: list[str], cell: Cell) -> tuple[int, int]:
    """From which to which index the options of a cell stand."""
    last = cell.line
    while last < len(lines) and lines[last].startswith("#|"):
        last += 1
    return cell.line, last


def _fields(
    lines: list[str], first: int, last: int, keys: tuple[str, ...], prefix: str
) -> Iterator[Passage]:
    for key, value, line in _written(lines, first, last, prefix):
        if key in keys:
            yield markdown(value, line)


def _written(
    lines: list[str], first: int, last: int, prefix: str
) -> Iterator[tuple[str, str, int]]:
    """Keys and values of lines of YAML as they stand there, and the number of their first line."""
    field = re.compile(rf"{re.escape(prefix)}([\w-]+):(.*)")
    number = first
    while number < last:
        found = field.fullmatch(lines[number])
        end = number + 1
        while end < last and not field.match(lines[end]):
            end += 1
        if found:
            rest = [line.removeprefix("#|") for line in lines[number + 1 : end]]
            yield found[1], _unquoted("\n".join([found[2], *rest])), number + 1
        number = end


def _unquoted(text: str) -> str:
    """YAML's escapes within quotes as the characters that they stand for."""
    escape = re.compile(r"\\(?:u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[\\\"])")
    if not text.lstrip().startswith('"'):
        return text
    return escape.sub(
        lambda one: one[0][1] if one[0][1] in '\\"' else chr(int(one[0][2:], 16)), text
    )


def _literals(cell: Cell) -> Iterator[Passage]:
    """Texts of the code that become prose, a printed line or a part of a figure."""
    strings = (NO_TEXT.sub("", one[1]) for one in STRING.findall(cell.code))
    if '"""' not in cell.code and not any(map(HINT.search, strings)):
        return
    try:
        tree = ast.parse(cell.code)
    except SyntaxError:
        return
    code = cell.code.split("\n")
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call):
            continue
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        shown = list(call.args) if name in SHOWING else []
        shown += [word.value for word in call.keywords if word.arg in SHOWN]
        for value in shown:
            for text in _texts(value):
                passage = markdown(without_fences(text.value), cell.code_line + text.lineno - 1)
                yield replace(passage, written=tuple(code[text.lineno - 1 : text.end_lineno]))


def _texts(node: ast.expr) -> Iterator[ast.Constant]:
    """String literals of an expression, but those that are looked up, compared or passed on."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            yield node
    elif isinstance(node, ast.JoinedStr | ast.List | ast.Tuple):
        for part in getattr(node, "values", getattr(node, "elts", ())):
            yield from _texts(part)
    elif isinstance(node, ast.BinOp):
        if isinstance(node.op, ast.Add):
            yield from _texts(node.left)
            yield from _texts(node.right)
    elif isinstance(node, ast.IfExp):
        yield from _texts(node.body)
        yield from _texts(node.orelse)
