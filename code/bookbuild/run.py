"""The values that an execution gives."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bookbuild.problems import Problem
from bookbuild.source import Source


@dataclass(frozen=True)
class PieceResult:
    """What one piece of the source became: a cell's Markdown, or the values of prose's inlines."""

    markdown: str = ""
    inlines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Run:
    """One complete execution of a chapter."""

    source: Source
    pieces: tuple[PieceResult, ...]
    figures: Mapping[str, bytes]
    record: Mapping[str, Any]  # what the kernel reported: see bookbuild.kernel.finish
    seconds: float = 0.0


@dataclass(frozen=True)
class Failure:
    """A chapter that drifted, raised, hung or lost its kernel.

    record: what its kernel could still report; complete where it did nothing but drift.
    """

    source: Source
    problems: tuple[Problem, ...]
    seconds: float = 0.0
    drifts: tuple[Mapping[str, Any], ...] = ()
    record: Mapping[str, Any] = field(default_factory=dict)
