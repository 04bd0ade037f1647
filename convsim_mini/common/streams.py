"""Standard output and error, made safe for untrusted text and any terminal."""

import os
import re
import sys
from contextlib import suppress

# What can steer a terminal: control characters except tab and line end; and characters that
# change the direction of text, which Unicode calls Bidi_Control.
STEERING = re.compile("[\0-\b\v-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def replace_streams():
    """Wrap sys.stdout and sys.stderr in _Shown, unless something such as pytest has replaced them.

    A closed stream, as in a daemon, becomes the null device.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode, errors="replace"))
        elif mode == "w" and stream is getattr(sys, f"__{name}__"):
            setattr(sys, name, _Shown(stream, lost=OSError if name == "stderr" else ()))


class _Shown:
    """A stream that shows "\ufffd" for characters in STEERING, "?" for those that it cannot encode.

    Errors of the types `lost` are ignored: what a closed terminal can no longer show, such as
    messages and bars, is lost, and the command continues.
    """

    def __init__(self, stream, lost):
        stream.reconfigure(errors="replace")
        self.stream, self.lost = stream, lost

    def __getattr__(self, name):
        return getattr(self.stream, name)

    def write(self, text):
        begin = "\r" if text.startswith("\r") else ""         # how a progress bar begins
        with suppress(self.lost):
            self.stream.write(begin + STEERING.sub("\ufffd", text[len(begin):]))

    def flush(self):
        with suppress(self.lost):
            self.stream.flush()
