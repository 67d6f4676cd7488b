"""A static server for a built site, with the headers that let pages share memory with workers."""

import errno
import gzip
from email.utils import formatdate
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from labkit.errors import UsageError
from labkit.publish.site.polish import policy_of

HOST = "127.0.0.1"
PORT = 8000
# So that a page is cross-origin isolated: without it there is no SharedArrayBuffer.
_ISOLATED = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_ALWAYS = {
    **_ISOLATED,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    # The browser sends a request each time, and gets 304 for a file that was not rebuilt.
    "Cache-Control": "no-cache",
}
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".wasm": "application/wasm",
}
_COMPRESSED = {".css", ".html", ".js", ".json", ".mjs", ".svg", ".txt"}


# The browser's own colours are those of the reader's scheme.
_ERROR = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>%(code)d</title>
<body style="max-width: 36rem; margin: 15vh auto; padding: 0 1rem; font: 1rem/1.6 system-ui">
<h1>%(explain)s</h1>
<p>The <a href="/">first page</a> leads to every lab.</p>
"""


class _Handler(SimpleHTTPRequestHandler):
    """Serves the files of a folder; texts are compressed, as by other hosts."""

    protocol_version = "HTTP/1.1"
    error_message_format = _ERROR
    responses = {  # noqa: RUF012
        **SimpleHTTPRequestHandler.responses,
        HTTPStatus.NOT_FOUND: ("Not Found", "This site has no such page"),
    }
    extensions_map = {**SimpleHTTPRequestHandler.extensions_map, **_TYPES}  # noqa: RUF012

    def __init__(self, *args: Any, policy: str, **options: Any) -> None:
        self.policy = policy
        super().__init__(*args, **options)

    def end_headers(self) -> None:
        """Add the headers that every answer has."""
        headers = {**_ALWAYS, "Content-Security-Policy": self.policy}
        for name, value in headers.items():
            self.send_header(name, value)
        super().end_headers()

    def send_head(self) -> BytesIO | BinaryIO | None:
        """Send the headers of a file; return its content in the form to send."""
        file = Path(self.translate_path(self.path))
        if file.is_dir() and self.path.partition("?")[0].endswith("/"):
            file /= "index.html"
        takes = "gzip" in self.headers.get("Accept-Encoding", "")
        if not takes or file.suffix not in _COMPRESSED or not file.is_file():
            return super().send_head()
        changed = formatdate(file.stat().st_mtime, usegmt=True)
        if self.headers.get("If-Modified-Since") == changed:
            self.send_response(HTTPStatus.NOT_MODIFIED)
            self.end_headers()
            return None
        data = gzip.compress(file.read_bytes(), 6)
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", self.guess_type(str(file)))
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Last-Modified", changed)
        self.send_header("Vary", "Accept-Encoding")
        self.end_headers()
        return BytesIO(data)

    def log_request(self, code: Any = "-", size: Any = "-") -> None:
        """Print nothing for an answered request."""


def make_server(folder: Path, port: int = PORT) -> ThreadingHTTPServer:
    """Return a server of a built site, bound to a port of this machine; 0 takes a free one.

    Raises:
        UsageError: the port is taken, or not allowed.
    """
    content = policy_of((folder / "index.html").read_text("utf-8"))
    handler = partial(_Handler, directory=str(folder), policy=content)
    try:
        return ThreadingHTTPServer((HOST, port), handler)
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        why = "is taken" if error.errno == errno.EADDRINUSE else "may not be used"
        raise UsageError(
            f"port {port} {why}; stop the program that uses it, or name another port: "
            f"make site ARGS='--serve --port {port + 1 if port >= 1024 else PORT}'"
        ) from None


def serve(folder: Path, port: int = PORT) -> None:
    """Serve a built site until Ctrl-C.

    Raises:
        UsageError: as `make_server`.
    """
    with make_server(folder, port) as server:
        print(f"The site is at http://{HOST}:{server.server_port}/ (Ctrl-C ends it)", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()
