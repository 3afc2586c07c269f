"""What is wrong with the book, in words for the person who must mend it."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Problem:
    """One message: `path:line: text`. A path is relative to the project; line 0 means the file."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        where = f"{self.path}:{self.line}" if self.line else self.path
        return f"{where}: {self.text}"


class BookError(Exception):
    """The book cannot be built as it is. Carries every problem of one phase, sorted."""

    def __init__(self, problems: Problem | Iterable[Problem]):
        found = [problems] if isinstance(problems, Problem) else problems
        self.problems = tuple(sorted(set(found)))
        super().__init__("\n".join(map(str, self.problems)))
