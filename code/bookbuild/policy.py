"""What a page may load and run: only files of its own site, and no code that stands in the page.

Every page carries this as a content security policy. Inline styles, which pandoc writes on columns
and cells of tables, become classes of one style sheet in the page's head, and the policy names the
sheet by its hash: so neither scripts nor styles need an exception. `unsafe_in` finds what the
policy would block, so that the build says it before a reader's browser does.
"""

import base64
import hashlib
import re
from collections.abc import Iterator
from html import escape, unescape
from html.parser import HTMLParser

# `file:` is what 'self' means for pages opened from the disk; over http a browser loads none.
OWN = "'self' file:"
DIRECTIVES = {
    "default-src": "'none'",
    "script-src": OWN,
    "style-src": OWN,
    "img-src": f"{OWN} data:",
    "font-src": OWN,
    "connect-src": "'self'",  # what judges a page asks for the site's robots.txt through it
    "base-uri": "'none'",
    "form-action": "'none'",
}
ATTRIBUTE = re.compile(r"""\s+([\w:.-]+)(?:\s*=\s*("[^"]*"|'[^']*'|[^\s>"']+))?""")
TAG = re.compile(rf"<[a-zA-Z][\w-]*(?:{ATTRIBUTE.pattern})*\s*/?>")
ALIGNED = re.compile(r"text-align:\s*(left|right|center)")
FORBIDDEN = {"script", "style", "iframe", "frame", "object", "embed", "applet", "base", "form",
             "link", "meta", "portal", "fencedframe"}  # fmt: skip
ADDRESSES = {"href", "src", "action", "formaction", "data", "xlink:href", "poster", "srcdoc"}
SCHEME = re.compile(r"[\s\x00-\x1f]*(javascript|vbscript|data)[\s\x00-\x1f]*:", re.IGNORECASE)
SUSPECT = re.compile(
    rf"<(?:{'|'.join(sorted(FORBIDDEN))})\b|\bon[a-z]+\s*=|srcdoc|javascript|vbscript"
    r"|=\s*[\"']?\s*data\s*:|=\s*[\"']?[^\"'\s>]*&(?!amp;|lt;|gt;|quot;)[^\"'\s>]*:",
    re.IGNORECASE,
)
# Markdown: what pandoc passes on as HTML, what it does not, and where it has tags and links.
RAW = re.compile(
    r"^[ \t]*(`{3,}|~{3,})[ \t]*\{=html\}[ \t]*\n(.*?)^[ \t]*\1[`~]*[ \t]*$", re.S | re.M
)
FENCED = re.compile(r"^[ \t]*(`{3,}|~{3,}).*?^[ \t]*\1[`~]*[ \t]*$", re.S | re.M)
CODE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)(\{=html\})?", re.S)
MATH = re.compile(r"\$\$.+?\$\$|(?<![\\$])\$(?=\S)(?:\\.|[^$\\\n])+?(?<=\S)\$(?!\d)", re.S)
OPENING = re.compile(r"<([a-zA-Z][\w-]*)")
LINK = re.compile(r"\]\(\s*<?([^)\s>]+)|^[ \t]*\[[^\]\n]+\]:\s*<?(\S+)", re.M)


def policy_for(*styles: str) -> str:
    """The policy of a page, which may hold these style sheets and no others."""
    directives = dict(DIRECTIVES)
    for text in filter(None, styles):
        digest = hashlib.sha256(text.encode()).digest()
        directives["style-src"] += f" 'sha256-{base64.b64encode(digest).decode()}'"
    return "; ".join(f"{name} {value}" for name, value in directives.items())


def without_styles(html: str) -> tuple[str, str]:
    """Turn the style attributes of a page into classes: the page, and their style sheet."""
    names: dict[str, str] = {}

    def tag(found: re.Match[str]) -> str:
        text = found.group()
        if "style" not in text.lower():
            return text
        attributes = {one[1].lower(): one for one in ATTRIBUTE.finditer(text)}
        style, classes = attributes.get("style"), attributes.get("class")
        if not style or not style[2]:
            return text
        rule = unescape(style[2].strip("\"'")).strip().rstrip(";")
        aligned = ALIGNED.fullmatch(rule)
        name = f"align-{aligned[1]}" if aligned else names.get(rule, f"styled-{len(names) + 1}")
        if not aligned:
            names[rule] = name
        parts = [(style.start(), style.end(), "")]
        if classes and classes[2]:
            start = classes.start(2) + (classes[2][0] in "\"'")
            parts.append((start, start, f"{name} "))
        else:
            start = re.match(r"<[\w-]+", text).end()
            parts.append((start, start, f' class="{name}"'))
        for start, end, new in sorted(parts, reverse=True):
            text = text[:start] + new + text[end:]
        return text

    html = TAG.sub(tag, html)
    # As strong as the attribute was: above every rule of the site's own sheet.
    rules = [f".{name}.{name}.{name} {{ {rule} }}" for rule, name in names.items()]
    return html, "\n".join(rules)


def unsafe_in(html: str) -> Iterator[tuple[int, str]]:
    """Code in a piece of HTML, as (line, what it is): scripts, handlers, addresses that run."""
    if not SUSPECT.search(html):
        return  # the parser takes its time
    reader = _Reader()
    reader.feed(html)
    reader.close()
    yield from reader.found


def unsafe_in_markdown(markdown: str) -> Iterator[tuple[int, str]]:
    """The same for Markdown, which may hold HTML anywhere but in its code.

    A sign `<` of a text can swallow what follows, so each tag is looked at by itself.
    """
    text = RAW.sub(lambda one: _blank(one[0][: one.start(2) - one.start()]) + one[2], markdown)
    text = CODE.sub(lambda one: one[2] if one[3] else _blank(one[0]), FENCED.sub(_blanked, text))
    text = MATH.sub(_blanked, text)
    for found in LINK.finditer(text):
        address = found[1] or found[2]
        if SCHEME.match(unescape(address)):
            yield text.count("\n", 0, found.start()) + 1, f"holds an address that runs, {address}"
    for found in OPENING.finditer(text):
        whole = TAG.match(text, found.start())
        following = OPENING.search(text, found.end())
        end = following.start() if following else len(text)
        tag = whole[0] if whole else text[found.start() : end]
        for line, said in unsafe_in(tag if ">" in tag else f"{tag}>"):
            yield text.count("\n", 0, found.start()) + line, said


def _blanked(found: re.Match[str]) -> str:
    return _blank(found[0])


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[int, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        line = self.getpos()[0]
        if tag in FORBIDDEN:
            self.found.append((line, f"holds <{tag}>"))
        for name, value in attrs:
            if name.startswith("on") and value is not None:
                self.found.append((line, f"holds a handler, {name}"))
            elif name in ADDRESSES and SCHEME.match(value or "") and not _is_image(tag, value):
                self.found.append((line, f"holds an address that runs, {escape(value)[:40]}"))
            elif name == "srcdoc":
                self.found.append((line, "holds a page of its own, srcdoc"))

    handle_startendtag = handle_starttag


def _is_image(tag: str, address: str | None) -> bool:
    return tag == "img" and (address or "").strip().lower().startswith("data:image/")
