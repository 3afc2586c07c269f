"""What the search looks through: every section of the book, as a script that also loads from disk.

A section is what stands between one heading and the next. Each term of the glossary and each entry
of the bibliography is one by itself, so that a search leads to it and not to a long page.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from bookbuild.render_tree import Node, parse_tree, said

FILE = "media/site/search-index.js"
HEADINGS = {"h2", "h3", "h4", "h5", "h6"}
SYMBOLS = {
    "cdot": "·", "times": "×", "pm": "±", "approx": "≈", "le": "≤", "leq": "≤", "ge": "≥",
    "geq": "≥", "ne": "≠", "neq": "≠", "in": "∈", "infty": "∞", "to": "→",
    "leftarrow": "←", "rightarrow": "→", "sum": "Σ", "prod": "Π",
    "top": "T", "lVert": "‖", "rVert": "‖", "Vert": "‖", "ldots": "…", "dots": "…", "cdots": "…",
    "partial": "∂", "nabla": "∇", "odot": "⊙", "sim": "~", "ll": "≪", "gg": "≫", "mid": "|",
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "varepsilon": "ε",
    "eta": "η", "theta": "θ", "lambda": "λ", "mu": "μ", "pi": "π", "rho": "ρ", "sigma": "σ",
    "tau": "τ", "phi": "φ", "omega": "ω", "Delta": "Δ", "Phi": "Φ", "Omega": "Ω", "%": "%",
    "_": "_", "#": "#", "&": "&", "{": "{", "}": "}", "quad": " ", "qquad": " ", ",": " ", ";": " ",
    ":": " ", " ": " ", "!": "", "\\": " ", "|": "‖",
}  # fmt: skip
DROPPED = re.compile(r"\\(?:left|right|[bB]ig[lr]?|displaystyle|limits)(?![a-zA-Z])")
GROUP = r"\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}"
STYLE = r"\\(?:math[a-z]+|text[a-z]*|operatorname|boldsymbol|bar|hat|tilde)"
STYLED = re.compile(rf"{STYLE}\s*(?:{GROUP}|(?<=[a-z]) ?(\w)\b)")
FRACTION = re.compile(r"\\[td]?frac\s*" + GROUP + r"\s*" + GROUP)
SHORT = re.compile(r"\\[td]?frac\s*(\w)\s*(\w)")  # \frac 12
AROUND = re.compile(r"\\(?:begin|end)\{\w+\*?\}")
ROOT = re.compile(r"\\sqrt\s*(?:" + GROUP + r"|(\w))")
COMMAND = re.compile(r"\\(?:([a-zA-Z]+) ?|(.))")
STRINGS = re.compile(
    r"#[^\n]*|([rbf]?)(\"{3}|'{3}|[\"'])(?:\\.|(?!\2).)*\2", re.DOTALL | re.IGNORECASE
)
NAME = re.compile(r"[A-Za-z_]\w{2,}")
SILENT = {"nav", "script", "button"}
INLINE = {"a", "abbr", "b", "cite", "code", "em", "i", "kbd", "q", "span", "strong", "sub", "sup"}


@dataclass
class Section:
    """One place that a search can lead to."""

    page: str  # path in the site
    id: str  # "" for what stands before the first heading
    number: str
    heading: str
    kind: str = "section"  # or term, reference
    text: str = ""
    names: str = ""  # what its code calls, each name once


def search_script(pages: Mapping[str, tuple[str, str, str]]) -> str:
    """The script with the index. `pages`: path in the site -> number, title, HTML of its body."""
    places = {path: place for place, path in enumerate(pages)}
    sections = []
    for path, (number, title, body) in pages.items():
        for section in sections_of(path, number, title, body):
            row = asdict(section) | {"page": places[path]}
            sections.append(list(row.values()))
    index = {
        "pages": [[path, number, title] for path, (number, title, _) in pages.items()],
        "sections": sections,
    }
    data = json.dumps(index, ensure_ascii=False, separators=(",", ":"))
    return f"window.bookSearchIndex={data};\n"


def sections_of(path: str, number: str, title: str, body: str) -> list[Section]:
    """The sections of a page in the order of the text; those without any text are left out."""
    first = Section(path, "", number, title)
    found = [first]
    _gather(parse_tree(body), first, found)
    for section in found:
        section.text = " ".join(section.text.split())
        section.names = " ".join(dict.fromkeys(section.names.split()))
    first.names = ""  # what its cells import, the sections use
    return [one for one in found if one.text or one.names or one.id]


def _gather(node: Node, section: Section, found: list[Section]) -> None:
    """Add what an element says to the section that it stands in, or to sections of its own."""
    for child in node.children:
        if isinstance(child, str):
            section.text += child
        elif child.tag == "section" and _heading_of(child):
            _gather(child, _begin(child, section.page, found), found)
        elif child.tag in HEADINGS and node.tag == "section":
            continue  # it names the section
        elif child.tag == "dl" and any(term.id.startswith("term-") for term in child.elements()):
            found.extend(_terms(child, section.page))
        elif "csl-entry" in child.classes:
            found.append(_reference(child, section.page))
        elif child.tag in SILENT or "hidden" in child.attributes or _is_fold(child):
            continue
        elif child.tag == "tr" and child.id.startswith("number-"):
            continue  # the ledger would answer before the chapter that explains
        elif "cell-output" in child.classes:
            section.text += f" {_captions(child)} "
        elif child.tag == "pre":
            section.names += f" {names_in(child_text(child))}"
        elif "math" in child.classes:
            section.text += readable_formula(child_text(child))
        elif child.tag in ("sub", "sup"):
            section.text += ("_" if child.tag == "sub" else "^") + child_text(child)
        else:
            section.text += " " if child.tag not in INLINE else ""
            _gather(child, section, found)
            section.text += " " if child.tag not in INLINE else ""


def _is_fold(node: Node) -> bool:
    """What a folded cell is opened by; the title of a folded callout says something."""
    return node.tag == "summary" and "callout-header" not in node.classes


def _heading_of(section: Node) -> Node | None:
    children = [child for child in section.children if isinstance(child, Node)]
    return next((child for child in children if child.tag in HEADINGS), None)


def _begin(element: Node, page: str, found: list[Section]) -> Section:
    heading = _heading_of(element)
    section = Section(page, element.id or heading.id, "", "")
    for child in heading.children:
        if isinstance(child, Node) and "header-section-number" in child.classes:
            section.number = child.text()
        else:
            section.heading += plain_text(child)
    section.heading = " ".join(section.heading.split())
    found.append(section)
    return section


def _terms(listed: Node, page: str) -> Iterator[Section]:
    """The terms of a definition list, each with its definitions."""
    section = None
    for child in listed.children:
        if not isinstance(child, Node):
            continue
        if child.tag == "dt":
            anchor = child.find(lambda node: node.id.startswith("term-"))
            section = Section(page, anchor.id if anchor else "", "", plain_text(child), "term")
            yield section
        elif section:
            section.text = f"{section.text} {plain_text(child)}".strip()


def _reference(entry: Node, page: str) -> Section:
    """An entry of the bibliography, called by its title."""
    text = plain_text(entry)
    quoted = re.search(r"“(.+?)[.,?!]?”", text)
    italic = entry.find(lambda node: node.tag == "em")
    title = quoted[1] if quoted else italic.text() if italic else text
    return Section(page, entry.id, "", title.strip(" ."), "reference", text)


def _captions(output: Node) -> str:
    tags = ("figcaption", "caption")
    return " ".join(plain_text(node) for node in output.elements() if node.tag in tags)


def child_text(node: Node) -> str:
    """All text in an element, unchanged."""
    return "".join(child if isinstance(child, str) else child_text(child) for child in said(node))


def plain_text(node: Node | str) -> str:
    """Text as it reads, formulas included."""
    if isinstance(node, str):
        return node
    section = Section("", "", "", "")
    if "math" in node.classes:
        return readable_formula(child_text(node))
    _gather(node, section, [])
    return section.text if node.tag in INLINE else " ".join(section.text.split())


def names_in(code: str) -> str:
    """The names of three letters or more that code uses; its strings and comments name nothing."""
    return " ".join(dict.fromkeys(NAME.findall(STRINGS.sub(" ", code))))


def readable_formula(tex: str) -> str:
    r"""A formula in one line of text: `\frac{QK^\top}{\sqrt{d_k}}` -> `QK^T/√d_k`."""
    text = re.sub(r"^\s*\\[(\[]|\\[)\]]\s*$", "", tex)
    text = SHORT.sub(r"\1/\2", AROUND.sub("", DROPPED.sub("", text)))
    while (styled := STYLED.sub(lambda found: found[1] or found[2], text)) != text:
        text = styled
    while (rooted := ROOT.sub(lambda found: "√" + _grouped(found[1] or found[2]), text)) != text:
        text = rooted
    while (divided := FRACTION.sub(_fraction, text)) != text:
        text = divided
    text = re.sub(r"([_^])" + GROUP, lambda found: found[1] + _grouped(found[2]), text)
    text = COMMAND.sub(
        lambda found: SYMBOLS.get(found[1] or found[2], f"{found[1] or found[2]} "), text
    )
    return " ".join(re.sub(r"[{}&]", "", text).split())


def _fraction(found: re.Match[str]) -> str:
    return f"{_grouped(found[1])}/{_grouped(found[2])}"


def _grouped(text: str) -> str:
    """In brackets where more than one thing stands: `x+1` -> `(x+1)`, `d_{model}` as it is."""
    text = text.strip()
    return f"({text})" if re.search(r"[\s+\-−=/]", text) else text
