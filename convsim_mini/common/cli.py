"""What all commands share: a user's mistakes, options and hints, and how a process ends."""

import argparse
import difflib
import os
import re
import shlex
import shutil
import signal
import sys
import threading
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from tqdm import tqdm

# sent by Ctrl-C, by a scheduler, and when a terminal closes (which Windows does not report)
ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP")
               if hasattr(signal, name))
# control characters except tab and line end, Unicode's Bidi_Control, halves of surrogate pairs
STEERING = re.compile(
    "[\0-\b\v-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
# a bar that vanishes when it ends, and is shown only in a terminal or a notebook
progress = partial(tqdm, leave=False, disable=False if "ipykernel" in sys.modules else None)


def say(message):
    """Print a line to standard error, above the progress bars."""
    tqdm.write(message, sys.stderr)


def print_anything():
    """From now on, print "?" for what the output cannot show, and nothing if it is closed."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:                        # closed, as in a daemon
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))
        elif name != "stdin" and hasattr(getattr(sys, name), "reconfigure"):
            getattr(sys, name).reconfigure(errors="replace")


def harmless(text):
    """A text from anywhere that cannot steer a terminal, with \ufffd for what would."""
    return STEERING.sub("\ufffd", text)


def one_line(value, longest=300):
    """A value as harmless text on one line, cut to a readable length."""
    text = harmless(" ".join(str(value).split()))
    return text if len(text) <= longest else f"{text[:longest]} …"


# ---------------------------------------------------------------- a user's mistakes

class UserError(Exception):
    """A user's mistake. The message says where, what was found and expected, and what to do."""

    def __str__(self):
        return harmless(" ".join(super().__str__().splitlines()))    # names may have line ends


@contextmanager
def user_errors(where, advice, errors=OSError):
    """Turn `errors` into a UserError "WHERE (what is wrong); ADVICE"."""
    try:
        yield
    except BrokenPipeError:                                   # of standard output
        raise
    except errors as error:
        reason = getattr(error, "strerror", None) or error
        if isinstance(error, shutil.Error):                   # copytree's list
            reason = error.args[0][-1][-1]
        raise UserError(f"{where} ({one_line(reason)}); {advice}") from None


def path_of(name):
    """The Path of a file or folder that a user names; ~ is the home folder. Raises UserError."""
    with user_errors(f"{str(name)!r:.300}: is not the name of a file or folder",
                     "expected a text or a Path", (TypeError, ValueError)):
        if not name or b"\0" in os.fsencode(name):
            raise ValueError("it is empty or holds a zero")
        path = Path(os.path.expanduser(name))
        if path.parts[:1] == ("~",):                              # as in some containers, in cron
            raise ValueError("there is no home folder")
        return path


# ---------------------------------------------------------------- options and hints

class Parser(argparse.ArgumentParser):
    """A parser that raises UserErrors, which suggest the option that may have been meant.

    doc: the command's docstring, or None under -OO; its first line is shown
    """

    def __init__(self, prog, doc, **kwargs):
        super().__init__(f"python -m {prog}", description=(doc or "").partition("\n")[0],
                         allow_abbrev=False, **kwargs)
        self.color = False                                    # Python 3.14's control characters

    def error(self, message):
        """Called by argparse for a wrong command line."""
        wrong = message.removeprefix("unrecognized arguments: ").split("=")[0].split() or [""]
        options = [] if message.startswith("argument") else self._option_string_actions
        raise UserError(f"{message}{did_you_mean(wrong[0], options)} (see --help)")


OF_RUNS = {    # options that several commands share
    "--device": {"choices": ("cpu", "gpu"), "default": "cpu"},
    "--json": {"action": "store_true", "help": "print the rows as JSON, one object per line: "
               "metric → [value, low, high]; the rest goes to standard error"}}


def parser_of(command, doc, *options, **of_run):
    """The parser of `python -m convsim_mini.COMMAND RUN`.

    options: names from OF_RUNS; of_run: further settings of the argument RUN
    """
    parser = Parser(f"convsim_mini.{command}", doc)
    parser.add_argument("run", type=path_of, **{"help": "the run's folder", **of_run})
    for option in options:
        parser.add_argument(option, **OF_RUNS[option])
    return parser


def did_you_mean(word, choices):
    """The hint "; did you mean X?", or ""; the last part of a dotted choice also counts."""
    last_parts = {choice.rpartition(".")[2].lstrip("-"): choice for choice in choices}
    named = last_parts | {choice.lstrip("-"): choice for choice in choices}
    near = difflib.get_close_matches(word.lstrip("-").replace("-", "_"), named, n=1)
    return f"; did you mean {named[near[0]]}?" if near else ""


def python_m(command, *words):
    """The line "python -m COMMAND WORDS" with the running Python, to paste into a shell here.

    words: names of files and sentences, which are quoted if necessary
    """
    python = sys.executable
    with suppress(OSError):                                   # the shell's folder may be gone
        python = python.removeprefix(os.getcwd() + os.sep)
    return " ".join([shlex.quote(python), "-m", command, *map(shlex.quote, map(str, words))])


def positive_int(text):
    """The type of an option that takes a whole number of 1 or more."""
    number = int(text)
    if number < 1:
        raise ValueError(f"{number} is below 1")
    return number


# ---------------------------------------------------------------- how a process ends

@contextmanager
def errors_in_one_line():
    """Turn errors caused by a user or the system into one line on standard error and an exit code.

    Code 2: a UserError, an OSError, too little memory. 130: Ctrl-C. 143: SIGTERM. 129: SIGHUP. 141,
    without a line: nobody reads standard output any more.
    """
    print_anything()
    signals = []

    def end(number, frame):
        signals.append(number)
        sys.exit(128 + number)    # an exception, so that every `finally` cleans up

    with handling(dict.fromkeys(ENDING, end)):
        try:
            yield
            sys.stdout.flush()                                # otherwise Python would, after this
            if signals:                                       # Python loses it in a weak reference
                sys.exit(128 + signals[0])
            return
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())    # for the last flush
            sys.exit(141)                                     # 128 + SIGPIPE
        except KeyboardInterrupt as error:                    # training was asked to stop
            sys.exit(128 + (error.args[0] if error.args else signal.SIGINT))
        except (UserError, FloatingPointError) as error:      # core has no UserErrors
            line = error
        except OSError as error:
            where = "the system" if error.filename is None else os.fsdecode(error.filename)
            line = (f"{where}: {error.strerror or error}; check the name, the free space and the "
                    "permissions there, and the limits (ulimit -a)")
        except MemoryError as error:
            reason = str(error).strip(" .") or "the system gives no more"
            line = (f"too little memory ({reason}); stop other programs that use it, or work on "
                    "less at once (training: with a lower --optim.batch_size)")
        sys.stderr.write(f"error: {UserError(line)}\n")
        sys.exit(2)


@contextmanager
def handling(handlers):
    """Handle signals in a block, unless they are ignored: number → function(number, frame)."""
    before = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()
                  if signal.getsignal(number) not in (None, signal.SIG_IGN)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
