"""Look at a run in a browser: replies, words, neighbours, attention, a map, the curves.

    python -m convsim_mini.explore RUN

The page is served to this computer alone, at an address that holds a secret token.
"""

import hmac
import html
import json
import secrets
import sys
import threading
import webbrowser
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from ..backend import keep_freed_memory
from ..common.cli import Parser, UserError, errors_in_one_line
from ..training.run import load_run
from .panels import PANELS, Explored

FILES = {"": "text/html", "page.css": "text/css", "page.js": "text/javascript"}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
                               "connect-src 'self'; img-src data:; base-uri 'none'; "
                               "form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store"}


class Server(ThreadingHTTPServer):
    """Serves the page of an Explored run to this computer alone, at `address`."""

    def __init__(self, explored):
        super().__init__(("127.0.0.1", 0), Handler)
        self.explored, self.lock, self.token = explored, threading.Lock(), secrets.token_urlsafe()
        self.address = f"http://127.0.0.1:{self.server_port}/{self.token}/"


class Handler(BaseHTTPRequestHandler):
    """GET gives a file of the page, POST a panel's answer to a question in JSON."""

    def do_GET(self):
        name = self.allowed(FILES)
        if name is not None:
            path = Path(__file__).with_name(name or "page.html")
            run = html.escape(str(self.server.explored.run.folder))
            self.send(200, FILES[name], path.read_text(encoding="utf-8").replace("$run", run))

    def do_POST(self):
        panel = self.allowed(PANELS)
        if panel is not None:
            question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            try:
                with self.server.lock:                        # a model takes all cores
                    answer = PANELS[panel](self.server.explored, question)
            except UserError as error:
                answer = {"status": str(error)}
            self.send(200, "application/json", json.dumps(answer))

    def allowed(self, names):
        """The part of the path after the token if it is one of `names`; else None, and a refusal.

        A stranger's page whose name leads to 127.0.0.1 sends that name as Host (DNS rebinding).
        """
        hosts = [f"{name}:{self.server.server_port}" for name in ("127.0.0.1", "localhost")]
        token, _, name = self.path[1:].partition("/")
        known = hmac.compare_digest(token.encode(), self.server.token.encode())
        if self.headers["Host"] not in hosts or not known:
            return self.send(403, "text/plain", "Open the address that the command has printed.")
        if name not in names:
            return self.send(404, "text/plain", "There is nothing at this address.")
        return name

    def send(self, code, kind, text):
        """Send a text, unless the browser does not wait for it any more."""
        with suppress(ConnectionError):
            self.send_response(code)
            for name, value in HEADERS.items():
                self.send_header(name, value)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.end_headers()
            self.wfile.write(text.encode())

    def log_message(self, *arguments):
        """Nothing: a log would show the token."""


@errors_in_one_line()
def main(argv=None):
    """The command: serve the page until Ctrl-C."""
    parser = Parser(prog="python -m convsim_mini.explore", description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="the run's folder")
    parser.add_argument("--index", type=Path, metavar="DIR", help="search the index that `encode` "
                        "made, not lines of the run's corpus")
    options = parser.parse_args(argv)
    keep_freed_memory()
    with Server(Explored(load_run(options.run), options.index)) as server:
        print(f"{server.address}\nCtrl-C ends it.", flush=True)
        if sys.stdout.isatty():
            threading.Thread(target=webbrowser.open, args=[server.address], daemon=True).start()
        server.serve_forever()


if __name__ == "__main__":
    main()
