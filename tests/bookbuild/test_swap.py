"""A finished folder takes the place of the old one in one step."""

import pytest

from bookbuild import swap


@pytest.fixture(params=[True, False], ids=["exchange", "two renames"])
def system(request, monkeypatch):
    """Once with the system's exchange of names, once on a file system without it."""
    if not request.param:
        monkeypatch.setattr(swap, "_exchange", lambda one, other: False)


def folder(path, content):
    path.mkdir()
    (path / "index.html").write_text(content)
    return path


def test_a_new_folder_takes_an_empty_place(system, tmp_path):
    swap.put(folder(tmp_path / "new", "2"), tmp_path / "deep/er/site")
    assert (tmp_path / "deep/er/site/index.html").read_text() == "2"
    assert not (tmp_path / "new").exists()


def test_a_new_folder_replaces_the_old_one_whole(system, tmp_path):
    site = folder(tmp_path / "site", "1")
    (site / "old.html").touch()
    swap.put(folder(tmp_path / "new", "2"), site)
    assert [path.name for path in tmp_path.iterdir()] == ["site"]
    assert [path.name for path in site.iterdir()] == ["index.html"]


def test_what_a_crash_between_two_renames_left_is_mended(system, tmp_path):
    folder(tmp_path / "site.before", "1")
    swap.recover(tmp_path / "site")
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


def test_what_a_crash_after_the_renames_left_does_not_disturb_the_next(system, tmp_path):
    site = folder(tmp_path / "site", "1")
    folder(tmp_path / "site.before", "0")
    swap.put(folder(tmp_path / "new", "2"), site)
    assert [path.name for path in tmp_path.iterdir()] == ["site"]
    assert (site / "index.html").read_text() == "2"
