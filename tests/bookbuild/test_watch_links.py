"""Links that lead out of the book: what is gone, what cannot be known, and no host hurried."""

import socket
import ssl
import threading
import urllib.error
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from bookbuild import watch_links
from bookbuild.watch_links import collect, follow, request


def followed(answers):
    """The report on addresses that answer as given: a status, an error, or one after another."""
    asked = Counter()

    def fetch(url, method):
        said = answers[url]
        if isinstance(said, list):
            said = said[min(asked[url], len(said) - 1)]
        asked[url] += 1
        if callable(said):
            said = said(method)
        if isinstance(said, Exception):
            raise said
        return said

    found = follow({url: ["a.html"] for url in answers}, fetch, sleep=lambda _: None)
    return found, asked


def states(found):
    return {
        row["url"]: (state, row["why"]) for state in ("gone", "unknown") for row in found[state]
    }


UNKNOWN_HOST = urllib.error.URLError(socket.gaierror(socket.EAI_NONAME, "Name not known"))
NO_NETWORK = urllib.error.URLError(socket.gaierror(socket.EAI_AGAIN, "try again"))
CERTIFICATE = ssl.SSLCertVerificationError("x")
CERTIFICATE.verify_message = "certificate has expired"


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (200, None),
        (404, ("gone", "HTTP 404")),
        (410, ("gone", "HTTP 410")),
        (403, ("unknown", "HTTP 403")),
        (429, ("unknown", "HTTP 429")),
        (503, ("unknown", "HTTP 503")),
        (UNKNOWN_HOST, ("gone", "its host is not known")),
        (NO_NETWORK, ("unknown", "[Errno -3] try again")),
        (TimeoutError(), ("unknown", "no answer in 20 s")),
        (
            urllib.error.URLError(CERTIFICATE),
            ("gone", "its certificate is not valid: certificate has expired"),
        ),
        (ConnectionResetError(104, "reset"), ("unknown", "[Errno 104] reset")),
        (lambda method: 404 if method == "HEAD" else 200, None),  # knows GET only
        ([503, 503, 200], None),  # had trouble once
        ([TimeoutError(), 200], None),
    ],
)
def test_what_an_answer_means(answer, verdict):
    found, _ = followed({"https://one.example/": answer})
    assert states(found) == ({} if verdict is None else {"https://one.example/": verdict})
    assert found["links"] == 1


def test_a_link_that_works_is_asked_for_once():
    _, asked = followed({"https://one.example/": 200, "https://one.example/b": 204})
    assert set(asked.values()) == {1}


def test_one_host_is_asked_one_by_one_and_hosts_beside_each_other():
    at_once, most, hosts = Counter(), Counter(), set()
    both = threading.Barrier(2, timeout=10)

    def fetch(url, _):
        host = url.split("/")[2]
        at_once[host] += 1
        most[host] = max(most[host], at_once[host])
        if host not in hosts:
            hosts.add(host)
            both.wait()  # passes only when the other host is being asked too
        at_once[host] -= 1
        return 200

    urls = [f"https://{host}.example/{number}" for host in "ab" for number in range(5)]
    follow({url: [] for url in urls}, fetch, sleep=lambda _: None)
    assert most == {"a.example": 1, "b.example": 1}


def test_links_are_collected_from_pages_and_markdown_with_where_they_stand(tmp_path):
    site = tmp_path / "_book"
    (site / "chapters").mkdir(parents=True)
    (site / "index.html").write_text(
        '<a href="https://a.example/x#part">x</a> <a href="chapters/b.html">in</a>'
        '<link href="https://never.example/style.css"><a name=n>'
    )
    (site / "chapters/b.html").write_text('<a class=l href="https://a.example/x">again</a>')
    (tmp_path / "README.md").write_text(
        "[m](https://m.example/y) and <https://n.example>, `https://code.example`\n"
    )
    assert collect(tmp_path, site) == {
        "https://a.example/x": ["chapters/b.html", "index.html"],
        "https://m.example/y": ["README.md"],
        "https://n.example": ["README.md"],
    }


@contextmanager
def server():
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            moved = self.path == "/moved"
            self.send_response({"/": 200, "/moved": 302}.get(self.path, 404))
            if moved:
                self.send_header("Location", "/nowhere")
            self.end_headers()

        do_HEAD = do_GET

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as one:
        thread = threading.Thread(target=one.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{one.server_address[1]}"
        one.shutdown()
        thread.join()


def test_real_answers(monkeypatch):
    with server() as at:
        assert request(f"{at}/", "HEAD") == request(f"{at}/", "GET") == 200
        assert request(f"{at}/moved", "GET") == 404  # where it leads is gone
        monkeypatch.setattr(watch_links, "REGISTRIES", {"127.0.0.1"})
        assert request(f"{at}/moved", "GET") == 302  # a registry knows it: that is enough
        assert request(f"{at}/10.1000/x", "GET") == 404
    with pytest.raises(OSError, match="refused"):
        request(f"{at}/", "GET")
