#!/usr/bin/env python3
"""Print what a rendered book states, as JSON, so that two renderings of one source can be compared.

usage: site_facts.py SITE_DIR            facts of every page below SITE_DIR
       site_facts.py SITE_A SITE_B       the differences, one a line; exit 1 if there are any

A fact is what a reader could quote: headings with their numbers and ids, captions with their
numbers, equation numbers, cross-reference links with their texts, callouts, code outputs,
citations and the bibliography. Markup, styling and scripts are no facts.
Needs beautifulsoup4 and lxml.
"""

import json
import re
import sys
from pathlib import Path

from bs4 import BeautifulSoup

OUTPUTS = ".cell-output-stdout, .cell-output-stderr, .cell-output-error"


def words(node):
    """Visible text of a node, white space folded; None gives ''."""
    if node is None:
        return ""
    return re.sub(r"\s+", " ", node.get_text(" ", strip=False)).strip()


def tight(text):
    """Text without spaces, for places where markup alone decides the spacing."""
    return re.sub(r"[\s\u00a0]+", "", text)


def page_facts(path):
    soup = BeautifulSoup(path.read_text(encoding="utf-8"), "lxml")
    body = soup.find("main") or soup.body
    no_content = "nav, script, style, .nav-page, #quarto-margin-sidebar, .anchorjs-link, button"
    for gone in body.select(no_content):
        gone.decompose()
    facts = {
        "displayed_equations": len(
            body.select('math[display="block"], .math.display, .katex-display')
        )
    }
    if any(body.select(".math.display")):
        facts["displayed_equations"] = len(body.select(".math.display"))
    # How a formula is drawn (MathML, KaTeX, plain TeX) is no fact: each stands as one sign.
    for formula in body.select(".math, .katex, math"):
        if not formula.find_parent(class_=["math", "katex"]) and not formula.find_parent("math"):
            formula.replace_with("\u25a1")

    facts["headings"] = [
        {
            "level": int(h.name[1]),
            "text": tight(words(h)),
            "id": None
            if h.name == "h1"
            else h.get("id")
            or (h.parent.get("id") if h.parent and h.parent.name == "section" else None),
        }
        for h in body.find_all(re.compile(r"^h[1-6]$"))
        if not h.find_parent(class_=re.compile(r"^callout"))
        and "hidden" not in (h.get("class") or [])
    ]
    captions = []
    for cap in body.find_all(["figcaption", "caption"]):
        holder = cap.find_parent(id=re.compile(r"^(fig|tbl|lst)-"))
        captions.append({"id": holder.get("id") if holder else None, "text": tight(words(cap))})
    facts["captions"] = captions
    facts["images"] = [{"alt": img.get("alt", "")} for img in body.find_all("img")]
    facts["crossrefs"] = [
        {"href": a["href"].lstrip("./"), "text": tight(words(a))}
        for a in body.select("a.quarto-xref[href]")
    ]
    facts["callouts"] = [
        {
            "kind": next(
                (
                    c[8:]
                    for c in box.get("class", [])
                    if c.startswith("callout-")
                    and c[8:] in ("note", "tip", "warning", "important", "caution")
                ),
                None,
            )
        }
        for box in body.select("div.callout")
    ]
    facts["code"] = [tight(words(c)) for c in body.select("code.sourceCode, pre.sourceCode > code")]
    facts["outputs"] = [tight(words(o)) for o in body.select(OUTPUTS)]
    facts["bibliography"] = [tight(words(b)) for b in body.select(".csl-entry")]
    notes = body.select("section.footnotes li, #footnotes li")
    facts["footnotes"] = [tight(words(f)).rstrip("↩︎") for f in notes]
    return facts


def site_facts(site):
    site = Path(site)
    skip = ("site_libs",)
    return {
        str(p.relative_to(site)): page_facts(p)
        for p in sorted(site.rglob("*.html"))
        if not any(part in skip for part in p.relative_to(site).parts)
    }


def differences(a, b):
    for page in sorted(set(a) | set(b)):
        if page not in a or page not in b:
            yield f"{page}: only in {'the second' if page not in a else 'the first'}"
            continue
        for key in sorted(set(a[page]) | set(b[page])):
            left, right = a[page].get(key), b[page].get(key)
            if left == right:
                continue
            if isinstance(left, list) and isinstance(right, list):
                for i in range(max(len(left), len(right))):
                    a_i = left[i] if i < len(left) else None
                    b_i = right[i] if i < len(right) else None
                    if a_i != b_i:
                        pair = [json.dumps(x, ensure_ascii=False) for x in (a_i, b_i)]
                        yield f"{page}: {key}[{i}]: {' != '.join(pair)}"
            else:
                yield f"{page}: {key}: {left!r} != {right!r}"


def main(argv):
    if len(argv) == 2:
        json.dump(site_facts(argv[1]), sys.stdout, indent=1, ensure_ascii=False, sort_keys=True)
        print()
        return 0
    if len(argv) == 3:
        found = list(differences(site_facts(argv[1]), site_facts(argv[2])))
        print("\n".join(found) if found else "no differences")
        return 1 if found else 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv))
