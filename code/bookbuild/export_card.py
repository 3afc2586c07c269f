"""The picture that stands for the book: on cards of links to it, and as cover of the EPUB."""

import hashlib
import json
from pathlib import Path

from bookbuild.project import Project

TEMPLATE = Path(__file__).parent / "print" / "card.typ"
FONTS = Path(__file__).parents[2] / "media" / "print" / "fonts"


def card(project: Project, cache: Path, *, cover: bool = False) -> bytes:
    """A PNG of 1200 by 630 pixels, or of 1200 by 1800 as cover; kept in `cache`."""
    told = {
        "title": project.title,
        "subtitle": project.subtitle,
        "author": ", ".join(project.author),
        "form": "cover" if cover else "card",
    }
    template = TEMPLATE.read_bytes()
    key = hashlib.sha256(template + json.dumps(told).encode()).hexdigest()[:32]
    kept = cache / f"{told['form']}-{key}.png"
    if kept.is_file():
        return kept.read_bytes()
    import typst  # here: a fifth of a second

    content = typst.compile(
        template,
        format="png",
        ppi=144,
        font_paths=[str(FONTS)],
        ignore_system_fonts=True,
        sys_inputs=told,
    )
    cache.mkdir(parents=True, exist_ok=True)
    for old in cache.glob(f"{told['form']}-*.png"):
        old.unlink(missing_ok=True)
    kept.write_bytes(content)
    return content
