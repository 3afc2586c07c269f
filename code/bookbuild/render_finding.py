"""The scripts by which pages know each other: what the search looks through, what links show."""

from collections.abc import Iterator

from bookbuild.render_cards import FILE as CARDS
from bookbuild.render_cards import cards_script
from bookbuild.render_links import Book
from bookbuild.render_pages import body_of
from bookbuild.render_search import FILE as INDEX
from bookbuild.render_search import search_script


def finding_scripts(book: Book) -> Iterator[tuple[str, str]]:
    """Path in the site and text of each script."""
    bodies = {chapter.href: body_of(book, chapter) for chapter in book.project.chapters}
    named = {
        chapter.href: (chapter.number or "", book.fragments[chapter.path].text)
        for chapter in book.project.chapters
    }
    yield INDEX, search_script({path: (*named[path], body) for path, body in bodies.items()})
    ids = {chapter.href: book.fragments[chapter.path].id for chapter in book.project.chapters}
    yield CARDS, cards_script({path: (*named[path], ids[path], bodies[path]) for path in bodies})
