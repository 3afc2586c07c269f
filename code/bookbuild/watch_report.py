"""What the watch found, as Markdown for one issue. The same findings give the same text."""

from collections.abc import Mapping, Sequence
from typing import Any

TITLE = "What no longer holds with the newest libraries"
LONGEST = 60_000  # characters that the body of an issue may have, and a little room
NOTHING = "Everything holds."


def report(
    numbers: Sequence[Mapping[str, Any]],
    links: Mapping[str, Any] | None = None,
    missing: Sequence[str] = (),
) -> str:
    """The text; it begins with NOTHING where there is nothing to do.

    Args:
        numbers: reports of `watch.numbers`.
        links: that of `watch_links.follow`.
        missing: what should have been looked at, and was not.
    """
    well = is_well(numbers, links, missing)
    lines = [NOTHING, ""] if well else [_opening(numbers, links, missing), ""]
    for name in missing:
        lines += [f"## {name}", "", "Without a result: its job failed before it had one.", ""]
    for one in numbers:
        lines += [f"## {one['name']}", "", _summary(one), ""]
        lines += _table(one["moved"])
        lines += _list(one["raised"])
    if links is not None:
        lines += _links(links)
    text = "\n".join(lines).rstrip("\n") + "\n"
    if len(text) <= LONGEST:
        return text
    cut = text[: text.rindex("\n", 0, LONGEST)]
    return f"{cut}\n\n(The rest is in the artifacts of the run.)\n"


def is_well(
    numbers: Sequence[Mapping[str, Any]],
    links: Mapping[str, Any] | None,
    missing: Sequence[str] = (),
) -> bool:
    """Whether nobody has to do anything. Links that could not be followed are only mentioned."""
    changed = any(one["moved"] or one["raised"] for one in numbers)
    return not (changed or missing or (links and links["gone"]))


def _opening(numbers, links, missing) -> str:
    parts = []
    if moved := len({row["id"] for one in numbers for row in one["moved"]}):
        parts.append(_count(moved, "number") + (" moves" if moved == 1 else " move"))
    if raised := len({row["chapter"] for one in numbers for row in one["raised"]}):
        parts.append(f"{_count(raised, 'chapter')} cannot be executed")
    if links and (gone := len(links["gone"])):
        parts.append(f"{_count(gone, 'link')} {'leads' if gone == 1 else 'lead'} nowhere")
    if missing:
        parts.append(f"no result of {' and '.join(missing)}")
    return f"{', '.join(parts)}."


def _summary(one: Mapping[str, Any]) -> str:
    changed = [f"{name} {was} → {now}" for name, (was, now) in one["changed"].items()]
    held = one["computed"] - len(one["moved"])
    return (
        f"{_count(one['computed'], 'number')} of {_count(one['chapters'], 'chapter')} recomputed "
        f"under Python {one['python']}, {held} as expected. "
        f"Not as locked: {', '.join(changed) or 'nothing'}."
    )


def _table(moved: Sequence[Mapping[str, Any]]) -> list[str]:
    if not moved:
        return []
    lines = ["| number | expected | got | where | cause |", "|---|---|---|---|---|"]
    for row in moved:
        cells = (
            f"{_code(row['id'])}: {_plain(row['statement'])}",
            _code(row["expected"]),
            _code(row["got"]),
            _code(f"{row['chapter']}:{row['line']}"),
            _plain(row["cause"]),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


def _list(raised: Sequence[Mapping[str, Any]]) -> list[str]:
    if not raised:
        return []
    lines = ["Not executed to the end:", ""]
    for row in raised:
        what = f"{row['chapter']}:{row['line']}: {row['text'].partition(chr(10))[0]}"
        lines.append(f"- {_code(what)}. Cause: {_plain(row['cause'])}")
    return [*lines, ""]


def _links(links: Mapping[str, Any]) -> list[str]:
    lines = ["## Links", "", f"{_count(links['links'], 'address')} followed.", ""]
    for title, rows in (("Gone", links["gone"]), ("Not to be known from here", links["unknown"])):
        if rows:
            lines += [f"{title}:", ""]
            lines += [
                f"- {row['url']} ({_plain(row['why'])}), in {', '.join(map(_code, row['places']))}"
                for row in rows
            ]
            lines.append("")
    return lines


def _code(text: object) -> str:
    """Text that Markdown takes as it is, mentions nobody, and fits into a table's cell."""
    flat = " ".join(str(text).split()).replace("`", "'").replace("|", "∣")
    return f"`{flat if len(flat) <= 200 else flat[:200] + ' …'}`"


def _plain(text: str) -> str:
    return " ".join(text.split()).replace("|", "∣").replace("@", "@\u200b").replace("<", "&lt;")


def _count(number: int, word: str) -> str:
    plural = f"{word}es" if word.endswith("s") else f"{word}s"
    return f"{number} {word if number == 1 else plural}"
