"""Find numbers that somebody typed into prose: they would go stale in silence.

Whatever looks measured must come from the ledger: through `say`, or, where words carry the number,
through a span that `bookbuild.worded` checks. Measured looks a number with a decimal point or
comma, a percent sign or a power; one whose thousands are grouped or that has five digits or more;
one with a unit of time or memory, a factor (`28×`, `28-fold`), a magnitude (`65M`, `65 million`),
or a sign for about; and a fraction such as ½. Other whole numbers may be typed. So may versions and
places in papers, which the word before them tells, and the few constants that `ledger.toml` lists
under [constants], each with its reason.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from bookbuild.diagrams import labels_of
from bookbuild.problems import Problem
from bookbuild.project import CONFIG, Project
from bookbuild.reading import Passage, markdown, passages
from bookbuild.source import Source
from bookbuild.worded import check_words
from ledger.entries import LEDGER, Entry

NOTE = "read.json"  # in the work folder
ASSETS = ("site",)  # below media: signs of the pages, no diagrams
# What can stand between digits: a point that was spelled as an entity has left word joiners.
POINT = "\u2060*[.．٫]\u2060*"
THOUSAND = "(?:,|[ \u00a0\u2009\u202f\u2007’'])\u2060*"
EXPONENT = r"(?:(?:\^|\*\*)\s*\{?\s*[-−+]?\d+(?![\d\w/.])\}?|[⁺⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+)"
TOKEN = re.compile(
    rf"""(?=[\d.．٫≈≃∼~±×½⅓⅔¼¾⅕-⅞⅐⅑⅒])
    (?:(?P<about>(?<!~)[≈≃∼~±]\s*)|(?<=[\s(])×)?
    (?<![^\W_])(?<![.．٫])(?<!\d,)(?<!\d,\u2060)(?<!\d,\u2060\u2060)
    (?P<core>
        (?P<grouped>\d{{1,3}}(?:{THOUSAND}\d{{3}}(?!\d))+)(?P<fraction>{POINT}\d+)?
        |\d+(?:{POINT}\d+)+
        |\d+,\d+(?!\d*,)
        |\d+
        |(?<!\w){POINT}\d+
    )
    (?P<power>\s*[×·]\s*10{EXPONENT}|[eE][-+−]?\d+(?!\w)|{EXPONENT})?
    (?P<tail>
        \s*(?:%|‰|per\s?cent\b|percent|pct\b)
        |\s?(?:thousand|million|billion|trillion|dozen)\b
        |\s?(?:[nµμm]s|[kKMGT]i?B|[kMGTP]?FLOPS?|[kMG]Hz|megabytes?|gigabytes?|milliseconds?)\b
        |\s?°
        |[kKMBGT]\b|bn\b|x\b|×(?=[\s.,;:)]|$)(?!\s*\d)
        |-?fold\b
        |\s+times\s+(?:as|more|less|the|\w+er)\b
        |[½⅓⅔¼¾⅕-⅞⅐⅑⅒]
        |⁄\d+|/\d+(?=\s+(?:of|as|the)\b)
    )?
    |(?P<vulgar>[½⅓⅔¼¾⅕-⅞⅐⅑⅒])""",
    re.VERBOSE,
)
# A version or a place in a paper: the word before it says so.
NAMED = re.compile(
    r"(?:\b(?:Python|Keras|TensorFlow|NumPy|SciPy|PyTorch|JAX|Matplotlib|scikit-learn|Quarto"
    r"|pandoc|KaTeX|CC\sBY|GloVe|versions?|sections?|sec\.|equations?|eq\.|tables?|figures?|fig\."
    r"|chapters?|appendix|listings?|algorithms?|theorems?|lemmas?|parts?|pages?|pp?\.)|§)"
    r"(?:\s+(?:\d[\d.]*|[A-Z][\d.]*)(?:,|\s+and|\s+or|\s+to|–)?)*\s*$",
    re.IGNORECASE,
)
GLUED = re.compile(r"(?:^|[^\w])[A-Z]\w*-$")  # GPT-3.5
MAGNITUDES = {"k": 1e3, "thousand": 1e3, "m": 1e6, "million": 1e6, "b": 1e9, "g": 1e9, "bn": 1e9,
              "billion": 1e9, "t": 1e12, "trillion": 1e12, "dozen": 12}  # fmt: skip
SUPERSCRIPTS = str.maketrans("⁺⁻⁰¹²³⁴⁵⁶⁷⁸⁹−", "+-0123456789-")


def unowned(
    project: Project,
    sources: Iterable[Source],
    ledger: Mapping[str, Entry],
    constants: Mapping[str, str],
    work: Path | None = None,
) -> Iterator[Problem]:
    """Every number of the book that no entry owns, and every marked word that its entry denies.

    Which sources had none is noted in the folder `work`, for reading takes longer than all else
    that decides what is stale.
    """
    config = (project.root / CONFIG).read_text(encoding="utf-8")
    for text in filter(None, (project.title, project.subtitle, project.description)):
        line = config.count("\n", 0, max(0, config.find(text))) + 1
        yield from _problems(CONFIG, markdown(text, line), ledger, constants)
    key, clean = _key(project.root), set()
    known = _read_note(work, key)
    for source in sources:
        problems = []
        if source.md5 not in known:
            problems += typed_numbers(source, ledger, constants)
            problems += check_words(source, ledger)
            yield from problems
        if not problems:
            clean.add(source.md5)
    if clean != known:
        _write_note(work, key, clean)
    media = project.root / "media"
    for path in sorted(media.rglob("*.svg")):
        if path.relative_to(media).parts[0] not in ASSETS:
            yield from numbers_in_diagram(project.root, path, ledger, constants)


def _key(root: Path) -> str:
    """Hash of all that decides, besides a source, what is found in it."""
    here = Path(__file__)
    ours = [here.with_name(f"{name}.py") for name in ("reading", "source", "worded", "words")]
    files = [path for path in (root / LEDGER, here, *ours) if path.is_file()]
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()


def _read_note(work: Path | None, key: str) -> set[str]:
    try:
        note = json.loads((work / NOTE).read_text(encoding="utf-8")) if work else {}
        return set(note["clean"]) if note.get("key") == key else set()
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return set()


def _write_note(work: Path | None, key: str, clean: set[str]) -> None:
    """Replace the note at once; where that cannot be, the next build reads again."""
    if work is None or not work.is_dir():
        return
    beside = work / f"{NOTE}.new"
    try:
        beside.write_text(json.dumps({"key": key, "clean": sorted(clean)}), encoding="utf-8")
        beside.replace(work / NOTE)
    except OSError:
        beside.unlink(missing_ok=True)


def typed_numbers(
    source: Source, ledger: Mapping[str, Entry], constants: Mapping[str, str]
) -> Iterator[Problem]:
    """A problem for each number of a chapter that no ledger entry owns."""
    for passage in passages(source):
        yield from _problems(source.path, passage, ledger, constants)


def numbers_in_diagram(
    root: Path, path: Path, ledger: Mapping[str, Entry], constants: Mapping[str, str]
) -> Iterator[Problem]:
    """The same for texts of an SVG file. A text with data-claim="id" must say that entry."""
    name = path.relative_to(root).as_posix()
    try:
        labels = list(labels_of(path))
    except ValueError as error:
        line, _, said = str(error).partition(":")
        yield Problem(name, int(line), said.strip())
        return
    for label in labels:
        if not label.claim:
            yield from _problems(name, Passage(label.text, label.line), ledger, constants)
        elif label.claim not in ledger:
            yield Problem(name, label.line, f"the ledger has no entry {label.claim}")
        elif (shown := ledger[label.claim].show(ledger[label.claim].value)) != label.text.strip():
            said = f"says {label.text.strip()}, where {label.claim} is {shown}"
            yield Problem(name, label.line, said)


def _problems(
    path: str, passage: Passage, ledger: Mapping[str, Entry], constants: Mapping[str, str]
) -> Iterator[Problem]:
    for found in measured(passage):
        number = _clean(found.group())
        if number in constants or _clean(found["core"] or "") + (found["tail"] or "") in constants:
            continue
        near = _nearest(value_of(found), ledger)
        hint = f"; nearest: {', '.join(near)}" if near else ""
        said = f"{number} is typed; compute it in a cell, check it, and say it{hint}"
        place = found.start("core") if found["core"] else found.start()
        yield Problem(path, passage.line_at(place, number), said)


def measured(passage: Passage) -> Iterator[re.Match[str]]:
    """The numbers of a text that look measured."""
    text = passage.text
    for found in TOKEN.finditer(text):
        if not _looks_measured(found, passage.in_formula(found.start())):
            continue
        before = text[max(0, found.start() - 120) : found.start()]
        plain = re.fullmatch(rf"\d+(?:{POINT}\d+)*|\d+B", found.group())
        if plain and (NAMED.search(before) or GLUED.search(before)):
            continue
        yield found


def _looks_measured(found: re.Match[str], in_formula: bool) -> bool:
    core, power, tail = found["core"], found["power"], found["tail"] or ""
    if core is None or found["about"] or found["grouped"] or found["fraction"]:
        return True
    if re.search("[.．٫]", core) or power:
        return True
    if "," in core:  # 0,25; but [0,1] is an interval, and indices stand in formulas
        bracketed = found.string[: found.start("core")].endswith(("[", "(", "{"))
        return not bracketed and (core.startswith("0,") or not in_formula)
    if tail in ("k", "K", "M", "B", "G", "T", "x", "×"):  # 2k may be twice k
        return not in_formula and (len(core) > 1 or tail not in ("k", "K"))
    if tail and not (in_formula and tail.strip()[-1:].isalpha()):
        return True
    if found.group()[0] == "×":
        return True
    symbolic = re.match(r"\s*(?:\^|\*\*)", found.string[found.end() :])  # 10000^{2i/d}
    return len(core) > 4 and not symbolic


def _clean(number: str) -> str:
    """As it reads: no joiners, one kind of space, none at the ends."""
    return re.sub(r"\s+", " ", number.replace("\u2060", "")).strip()


def value_of(found: re.Match[str]) -> float | None:
    """The number that a match of TOKEN writes, or None where that is unclear."""
    core = _clean(found["core"] or "")
    if found["grouped"]:
        core = re.sub(r"[, \u00a0\u2009\u202f\u2007’']", "", core)
    try:
        value = float(re.sub(r"[,．٫]", ".", core))
    except ValueError:
        return None
    power = re.sub(r"[\s{}^*]|[×·]\s*10", "", found["power"] or "").translate(SUPERSCRIPTS)
    tail = (found["tail"] or "").strip().lower()
    try:
        if power[:1] in ("e", "E") or re.match(r"\s*[×·]", found["power"] or ""):
            value *= 10.0 ** int(power.lstrip("eE"))
        elif power:
            value **= int(power)
    except OverflowError:
        return None
    if tail.startswith(("%", "per", "pct")):
        value /= 100
    return value * MAGNITUDES.get(tail, 1)


def _nearest(value: float | None, ledger: Mapping[str, Entry]) -> list[str]:
    """Up to three ids whose value, or one of whose values, is about `value`."""
    if value is None:
        return []
    close = []
    for id, entry in ledger.items():
        gaps = [
            abs(abs(one) - value)
            for one in _numbers(entry.value)
            if abs(abs(one) - value) <= 0.05 * max(value, abs(one))
        ]
        if gaps:
            close.append((min(gaps), id))
    return [id for _, id in sorted(close)[:3]]


def _numbers(value: object) -> Iterator[float]:
    if isinstance(value, list):
        for one in value:
            yield from _numbers(one)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value
