"""The preview: on this machine only, nothing outside the site, a build after each save."""

import http.client
import socket
import threading
import time
from types import SimpleNamespace

import pytest

from bookbuild import serve as serving
from bookbuild.project import load_project


@pytest.fixture
def preview(executed, site, monkeypatch):
    """A running preview whose watcher is moved by hand: `save(*paths)`."""
    events, said = [], []
    woken = threading.Event()

    def watch(root, **_):
        while True:
            woken.wait()
            woken.clear()
            batch, events[:] = list(events), []
            if not batch:
                return
            yield {(1, str(root / path)) for path in batch}

    monkeypatch.setattr("watchfiles.watch", watch)
    project = load_project(executed)
    thread = threading.Thread(
        target=serving.serve, args=(project,), kwargs={"jobs": 1, "port": 0, "say": said.append}
    )
    thread.start()
    assert wait_for(lambda: any("http://" in line for line in said)), said
    port = int(next(line for line in said if "http://" in line).split(":")[2].split("/")[0])

    def save(*paths, lines=2):
        """Tell of saved files and wait until so many lines are said."""
        count = len(said)
        events.extend(paths)
        woken.set()
        assert wait_for(lambda: not events and len(said) >= count + lines), said

    yield SimpleNamespace(root=executed, port=port, save=save, said=said, rendered=site)
    events.clear()
    woken.set()
    thread.join(10)
    assert not thread.is_alive()


def wait_for(condition, seconds=20.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end and not condition():
        time.sleep(0.02)
    return condition()


def get(port, path, host="127.0.0.1"):
    connection = http.client.HTTPConnection(host, port, timeout=5)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode(), response.headers
    finally:
        connection.close()


def test_a_page_is_served_and_never_cached(preview):
    status, body, headers = get(preview.port, "/chapters/one.html")
    assert status == 200 and "Between them." in body
    assert headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    "path",
    [
        "/../ledger.toml",
        "/%2e%2e/ledger.toml",
        "/%252e%252e/ledger.toml",
        "/..%2fledger.toml",
        "/%2e%2e%2fledger.toml",
        "/..%5cledger.toml",
        "/..\\ledger.toml",
        "/%c0%ae%c0%ae/ledger.toml",
        "/chapters/../../ledger.toml",
        "/chapters/..%2f..%2fledger.toml",
        "/./.././ledger.toml",
        "//etc/passwd",
        "///etc/passwd",
        "/%2fetc/passwd",
        "/etc/passwd%00.html",
        "/index.html%00",
        "/link.toml",
        "/out/ledger.toml",
        "/circle",
        "/circle/x",
        "/chapters",
        "/chapters/",
        "/?/../../ledger.toml&x=%2e%2e",
    ],
)
def test_nothing_outside_the_site_is_served_and_no_folder_is_listed(preview, path):
    book = preview.root / "_book"
    (book / "link.toml").symlink_to(preview.root / "ledger.toml")
    (book / "out").symlink_to(preview.root)
    (book / "circle").symlink_to(book / "circle")
    status, body, _ = get(preview.port, path)
    known = get(preview.port, "/index.html")
    assert known[0] == 200 and "statement" not in body and "root:" not in body
    if path.startswith("/?"):  # the page itself, whatever is asked of it
        assert (status, body) == known[:2]
    elif path in ("/chapters", "/chapters/"):
        assert status in (301, 404)
    else:
        assert status in (404, 400)


@pytest.mark.parametrize("host, status", [("evil.example", 403), ("localhost", 200), ("", 403)])
def test_a_foreign_name_gets_no_answer(preview, host, status):
    connection = http.client.HTTPConnection("127.0.0.1", preview.port, timeout=5)
    connection.putrequest("GET", "/index.html", skip_host=True)
    if host:
        connection.putheader("Host", f"{host}:{preview.port}")
    connection.endheaders()
    response = connection.getresponse()
    assert response.status == status
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Content-Security-Policy"] == "frame-ancestors 'none'"
    connection.close()


def test_only_reading_is_answered(preview):
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        connection = http.client.HTTPConnection("127.0.0.1", preview.port, timeout=5)
        connection.request(method, "/index.html", body=b"x")
        assert connection.getresponse().status == 501
        connection.close()


def test_only_this_machine_is_listened_to(preview):
    addresses = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None)}
    for address in addresses - {"127.0.0.1"}:
        with (
            socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as client,
            pytest.raises(OSError),
        ):
            client.connect((address, preview.port))


def test_a_save_rebuilds_and_a_mistake_leaves_the_last_page(preview, books):
    books.edit(preview.root / "chapters/one.qmd", "Between them.", "Amid them.")
    preview.save("chapters/one.qmd")
    assert preview.said[-2:] == ["chapters/one.qmd saved", "0 ran, 3 of 3 pages rendered"]
    assert "Amid them." in get(preview.port, "/chapters/one.html")[1]
    books.edit(preview.root / "chapters/one.qmd", "Amid them.", "{{< video x >}}")
    preview.save("chapters/one.qmd")
    assert preview.said[-1].startswith("chapters/one.qmd:13: shortcode")
    assert "Amid them." in get(preview.port, "/chapters/one.html")[1]


def test_a_file_that_is_gone_for_a_moment_does_not_end_the_preview(preview):
    (preview.root / "chapters/one.qmd").rename(preview.root / "aside")
    preview.save("chapters/one.qmd")
    assert "lists chapters/one.qmd, which does not exist" in preview.said[-1]
    (preview.root / "aside").rename(preview.root / "chapters/one.qmd")
    preview.save("chapters/one.qmd")
    assert preview.said[-1] == "nothing changed" or "pages rendered" in preview.said[-1]


def test_what_a_build_itself_writes_does_not_start_another(preview):
    count = len(preview.said)
    written = ("_book/index.html", "_freeze/x", ".book/lock", "code/measured/__pycache__/a.pyc")
    preview.save(*written, lines=0)
    preview.save("index.qmd")
    assert preview.said[count:] == ["index.qmd saved", "nothing changed"]
