"""What all tests share."""

from pathlib import Path

import pytest
from hypothesis import settings

# The machine is shared and slow at times: an example may take long without anything being wrong.
settings.register_profile("book", deadline=None, derandomize=True)
settings.load_profile("book")

# The files that take longest, and so are begun first: no worker ends alone with one of them.
LONG = (
    "site/test_accessibility.py",
    "book/test_listings.py",
    "site/test_pages.py",
    "bookbuild/test_workflow_steps.py",
    "site/test_exercises_page.py",
    "bookbuild/test_robust.py",
    "site/test_export_whole.py",
    "bookbuild/test_watch.py",
    "site/test_reading.py",
    "bookbuild/test_execute.py",
    "site/test_lighthouse.py",
    "measured/test_dates.py",
    "bookbuild/test_render.py",
    "site/test_page_weight.py",
    "bookbuild/test_growth.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    rank = {Path(__file__).parent / name: place for place, name in enumerate(LONG)}
    assert all(path.is_file() for path in rank), "LONG names a file that is no more"
    items.sort(key=lambda item: rank.get(item.path, len(LONG)))  # the others keep their order
