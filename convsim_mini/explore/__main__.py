"""Look at a run in a browser: replies, words, neighbours, attention.

    python -m convsim_mini.explore RUN [--port N] [--host NAME:PORT]

On a computer that you reach by ssh: explore RUN --port 8000 there, here ssh -L 8000:127.0.0.1:8000
THERE, and open the address that it prints.
"""

import hmac
import html
import json
import secrets
import sys
import threading
import webbrowser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from ..fast.host import use_all_cores
from ..common.cli import UserError, errors_in_one_line, parser_of, user_errors
from ..training.run import load_run
from .panels import PANELS, Explored, fields

FILES = {"": "text/html", "page.css": "text/css", "page.js": "text/javascript"}
LINKS = "\n".join(f'<a href="#{name}" data-fields="{" ".join(fields(name))}">{name.title()}</a>'
                  for name in PANELS)
POLICY = "default-src 'self'; img-src data:; frame-ancestors 'none'"    # nothing from elsewhere


class Server(ThreadingHTTPServer):
    """Serves the page of an Explored run to this computer only, at an address with a token.

    port: 0: any that is free; host: under which name, and port, a browser reaches a forwarded port
    """

    def __init__(self, explored, port=0, host=None):
        super().__init__(("127.0.0.1", port), Handler)
        self.explored = explored
        self.lock = threading.Lock()
        self.token = secrets.token_urlsafe()
        here = f"127.0.0.1:{self.server_port}"
        self.hosts = [host or here, here, f"localhost:{self.server_port}"]
        self.address = f"http://{self.hosts[0]}/{self.token}/"

    def handle_error(self, request, client_address):
        """Say nothing about a connection that broke, as when a page is left."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """GET returns a file of the page, POST a panel's answer to a question: its fields, as JSON."""

    def do_GET(self):
        if (name := self.allowed(FILES)) is not None:
            text = Path(__file__).with_name(name or "page.html").read_text(encoding="utf-8")
            run = html.escape(str(self.server.explored.run.folder))
            self.send(200, FILES[name], text.replace("$run", run).replace("$links", LINKS))

    def do_POST(self):
        if panel := self.allowed(PANELS):
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            question = {name: asked[name] for name in fields(panel)}
            try:
                with self.server.lock:                        # a model takes all cores
                    answer = PANELS[panel](self.server.explored, **question)
            except UserError as error:
                answer = {"status": str(error)}
            answer["about"] = PANELS[panel].__doc__
            self.send(200, "application/json", json.dumps(answer))

    def allowed(self, names):
        """The part of the path after the token, if it is in `names`; otherwise None and a 403.

        Host is checked because another site's host name can resolve to 127.0.0.1 (DNS rebinding).
        """
        token, _, name = self.path[1:].partition("/")
        known = hmac.compare_digest(token.encode(), self.server.token.encode())
        host = self.headers["Host"]
        if known and name in names and host in self.server.hosts:
            return name
        more = f" If you forward its port, start it with --host {host}" * (
            known and host not in self.server.hosts)
        self.send(403, "text/plain", f"Open the address that the command printed.{more}")

    def send(self, code, kind, text):
        """Send a text as the response."""
        self.send_response(code)
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.end_headers()
        self.wfile.write(text.encode(errors="replace"))

    def log_message(self, *arguments):
        """Log nothing, because a log would show the token."""


@errors_in_one_line()
def main(argv=None):
    """The command: serve the page until Ctrl-C."""
    parser = parser_of("explore", __doc__)
    parser.add_argument("--port", type=int, default=0, help="to serve at (default: any free one)")
    parser.add_argument("--host", metavar="NAME:PORT", help="what a browser's address bar shows if "
                        "the port is forwarded under another name or number")
    options = parser.parse_args(argv)
    use_all_cores()
    explored = Explored(load_run(options.run))
    with user_errors(f"--port {options.port}: cannot be used", "choose another, above 1023",
                     (OSError, OverflowError)):
        server = Server(explored, options.port, options.host)
    with server:
        print(f"{server.address}\nPress Ctrl-C to stop.", flush=True)
        if sys.stdout.isatty():
            threading.Thread(target=webbrowser.open, args=[server.address], daemon=True).start()
        server.serve_forever()


if __name__ == "__main__":
    main()
