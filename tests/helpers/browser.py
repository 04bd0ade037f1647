"""A Chromium without a window, driven over a pipe by its own DevTools protocol."""

import json
import os
import shutil
import subprocess
import time

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
KEYS = {"Tab": 9, "Enter": 13}
LOGGED = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")


class Browser:
    """One page. `console` has what its console and its network said, `run` runs JavaScript."""

    def __init__(self, profile):
        program = next(filter(None, map(shutil.which, NAMES)), None)
        if not program:
            pytest.skip("no Chromium is installed: Debian's package chromium")
        commands, self.commands = os.pipe()
        self.answers, answers = os.pipe()

        def at_3_and_4():                                     # where Chromium looks for its pipe
            read, write = os.dup(commands), os.dup(answers)
            os.dup2(read, 3)
            os.dup2(write, 4)

        self.process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
             "--disable-background-networking", "--hide-scrollbars",
             f"--user-data-dir={profile}", "about:blank"],
            preexec_fn=at_3_and_4, close_fds=False, stderr=subprocess.DEVNULL)
        os.close(commands)
        os.close(answers)
        self.received, self.number, self.session, self.console = b"", 0, None, []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")

    def close(self):
        """End the browser."""
        self.process.kill()
        self.process.wait()
        os.close(self.commands)
        os.close(self.answers)

    def send(self, method, **params):
        """Send a command of the protocol; → its result."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.received:
                self.received += os.read(self.answers, 1 << 16) or pytest.fail("Chromium ended")
            text, _, self.received = self.received.partition(b"\0")
            event = json.loads(text)
            if event.get("method") in LOGGED:
                self.console.append(event["params"])
            if event.get("id") == self.number:
                assert "error" not in event, event
                return event["result"]

    def run(self, script):
        """The value of a JavaScript expression."""
        done = self.send("Runtime.evaluate", expression=script, returnByValue=True,
                         awaitPromise=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def wait_for(self, script, seconds=120):
        """Wait until a JavaScript expression is true; → its value."""
        until = time.monotonic() + seconds
        while not (value := self.run(script)):
            assert time.monotonic() < until, (script, self.run("document.body.innerText"))
            time.sleep(0.05)
        return value

    def press(self, key):
        """Press a key of KEYS."""
        for kind in ("rawKeyDown", "char", "keyUp"):
            text = {"text": "\r"} if key == "Enter" and kind == "char" else {}
            if kind != "char" or text:
                self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key,
                          windowsVirtualKeyCode=KEYS[key], **text)

    def type(self, text):
        """Type a text where the focus is."""
        self.send("Input.insertText", text=text)

    def look(self, width, height, dark=False):
        """Set the size of the window, in px, and whether the reader likes it dark."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)
        self.send("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
