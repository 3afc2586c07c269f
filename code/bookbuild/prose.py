"""Find numbers that somebody typed into prose: they would go stale in silence.

Whatever looks measured must come from the ledger through `say`: decimals, percentages, powers and
thousands-grouped numbers, in text, formulas, captions and alternative texts. Small whole numbers
may be typed. So may versions and the sections of papers, which the word before them tells, and the
few constants that `ledger.toml` lists under [constants], each with its reason.
"""

import re
from collections.abc import Iterator, Mapping

from bookbuild.problems import Problem
from bookbuild.source import Cell, Prose, Source, outside_code
from ledger.entries import Entry

NUMBER = re.compile(
    r"(?<![\w.,])\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\w])"  # 63,082,496
    r"|(?<![\w.])\d+(?:\.\d+)+(?:\s?%)?"  # 7.0711 and 3.2.3
    r"|(?<![\w.])\d+\s?(?:%|\\%|percent\b)"  # 5 %
    r"|(?<![\w.])\d+e[-+]?\d+"  # 1e-9
    r"|(?<![\w.])(?:\d+\s?(?:×|\\times)\s?)?10(?:[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+|\^\{?[-−]\d+)"  # 10⁻⁹ and 10^{-9}
)
# A version or a place in a paper: the word before it says so.
NAMED = re.compile(
    r"(?:Python|Keras|TensorFlow|NumPy|SciPy|PyTorch|Matplotlib|Quarto|pandoc|CC BY|versions?"
    r"|sections?|sec\.|equations?|eq\.|tables?|figures?|fig\.|chapters?|appendix)"
    r"(?:[\s ]+(?:\d[\d.]*)(?:,| and| or| to|–)?)*[\s ]*$",
    re.IGNORECASE,
)
CAPTIONS = ("fig-cap", "fig-subcap", "fig-alt", "tbl-cap", "lst-cap")


def typed_numbers(
    source: Source, ledger: Mapping[str, Entry], constants: Mapping[str, str]
) -> Iterator[Problem]:
    """A problem for each number of a chapter that no ledger entry owns."""
    for line, text in _texts(source):
        for found in NUMBER.finditer(text):
            number = found.group().strip()
            if number in constants or NAMED.search(text[: found.start()]):
                continue
            near = _nearest(number, ledger)
            hint = f"; nearest: {', '.join(near)}" if near else ""
            yield Problem(
                source.path,
                line,
                f"{number} is typed; compute it in a cell, check it, and say it{hint}",
            )


def _texts(source: Source) -> Iterator[tuple[int, str]]:
    """Numbered lines of what a reader sees as text: no code, attributes or addresses."""
    for place, piece in enumerate(source.pieces):
        if isinstance(piece, Cell):
            for key in CAPTIONS:
                value = piece.options.get(key, ())
                for text in [value] if isinstance(value, str) else value:
                    yield piece.line, text
        elif isinstance(piece, Prose) and not (place == 0 and piece.text.startswith("---")):
            for line, text in outside_code(piece):
                text = re.sub(r"\]\([^)]*\)", "]", text)
                text = re.sub(r"<https?://[^>]*>|\barXiv:[\d.]+|\bdoi:\S+", "", text)
                yield line, re.sub(r"(?<=[\])`:\s])\{[.#=][^}]*\}", "", text)


def _nearest(number: str, ledger: Mapping[str, Entry]) -> list[str]:
    """Up to three ids whose value is about `number`."""
    try:
        value = float(re.sub(r"[,\s%\\]|percent", "", number))
    except ValueError:
        return []
    close = [
        (abs(entry.value - value), id)
        for id, entry in ledger.items()
        if isinstance(entry.value, int | float)
        and not isinstance(entry.value, bool)
        and abs(entry.value - value) <= 0.05 * max(abs(value), abs(entry.value))
    ]
    return [id for _, id in sorted(close)[:3]]
