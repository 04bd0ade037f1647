"""What all commands share: options, mistakes in one line and exit code 2, progress bars."""

import argparse
import atexit
import difflib
import os
import signal
import sys
import threading
from contextlib import contextmanager

from tqdm import tqdm


# Ctrl-C; what a system or a scheduler sends; what a terminal that is closed sends
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STDOUT = "standard output"


class UserError(Exception):
    """A user's mistake. The message says where, what was found and expected, and what to do."""


class Parser(argparse.ArgumentParser):
    """A parser that raises a UserError, which names the option that may have been meant."""

    def __init__(self, **kwargs):
        super().__init__(allow_abbrev=False, **kwargs)

    def error(self, message):
        """What argparse calls for a wrong command line."""
        wrong = message.removeprefix("unrecognized arguments: ").split("=")[0].split() or [""]
        options = [] if message.startswith("argument") else self._option_string_actions
        raise UserError(f"{message}{did_you_mean(wrong[0], options)} (see --help)")


def did_you_mean(word, choices):
    """"; did you mean X?", X the choice that is spelled most like the word; "" if none is near.

    The last part of a dotted choice counts, too: batch_size is near --optim.batch_size.
    """
    last_parts = {choice.rpartition(".")[2].lstrip("-"): choice for choice in choices}
    named = last_parts | {choice.lstrip("-"): choice for choice in choices}
    near = difflib.get_close_matches(word.lstrip("-"), named, n=1)
    return f"; did you mean {named[near[0]]}?" if near else ""


def positive_int(text):
    """The type of an option that takes a number from 1 on."""
    number = int(text)
    if number < 1:
        raise ValueError(f"{number} is below 1")
    return number


def progress(*args, **options):
    """A tqdm bar that vanishes at its end; in a log file, a line every 30 seconds."""
    if not (sys.stderr and sys.stderr.isatty()):
        in_a_log = dict.fromkeys(["mininterval", "maxinterval", "delay"], 30)
        options |= {**in_a_log, "file": _Lines(), "leave": False, "ncols": 80}
    return tqdm(*args, **{"leave": False, **options})


class _Lines:
    """A file for tqdm: each state of a bar becomes a line of its own."""

    def write(self, text):
        if text.strip():
            sys.stderr.write(text.strip() + "\n")


@contextmanager
def user_errors(where, advice, errors=OSError):
    """Turn errors of these types into UserError: "WHERE (what went wrong); ADVICE"."""
    try:
        yield
    except errors as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{where} ({reason}); {advice}") from None


def memory_reason(error):
    """What a MemoryError, of the host or of a GPU, says, in one line."""
    return " ".join(str(error).split()).rstrip(".") or "the system gives no more"


@contextmanager
def errors_in_one_line(must_show=True):
    """Turn what a user or the system can cause into one line on standard error and an exit code.

    2: a UserError, an OSError, too little memory, text that cannot be encoded; 130: Ctrl-C; 143:
    SIGTERM; 129: SIGHUP; 141, without a line: nobody reads standard output any more. must_show:
    False where a standard output that is closed, full or unread is no error.
    """
    closed = must_show and sys.stdout is None
    with _own_streams(must_show), handling(dict.fromkeys(ENDING, _end)):
        try:
            if closed:
                raise UserError("standard output is closed; open it, for example with > FILE")
            try:
                yield
            finally:
                sys.stdout.flush()                            # or Python would, after this
        except UserError as error:
            _fail(error)
        except OSError as error:
            if isinstance(error, BrokenPipeError) and error.filename == STDOUT:
                sys.exit(128 + signal.SIGPIPE)
            where = "the system" if error.filename is None else os.fsdecode(error.filename)
            _fail(f"{where}: {error.strerror or error}; check the name, the room and the "
                  "permissions there, then run the same command again")
        except UnicodeEncodeError as error:
            advice = ("leave them out" if error.encoding == "utf-8" else
                      "run the same command with PYTHONUTF8=1 before it")
            _fail(f"{error.object[error.start:error.end]!a}: letters that {error.encoding}, which "
                  f"this system writes, does not have; {advice}")
        except MemoryError as error:
            _fail(f"too little memory ({memory_reason(error)}); stop what else uses it, or give "
                  "less to work on at once")
        except KeyboardInterrupt as error:                    # of a training that was asked to stop
            sys.exit(128 + (error.args[0] if error.args else signal.SIGINT))


def _fail(line):
    sys.stderr.write(f"error: {' '.join(str(line).splitlines())}\n")    # names have line ends, too
    sys.exit(2)


def _end(number, frame):
    sys.exit(128 + number)                                    # so that every `finally` cleans up


@contextmanager
def handling(handlers):
    """Handle signals so meanwhile: number → function(number, frame). Only the main thread can.

    Those that are ignored, as by nohup, stay so.
    """
    able = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, handlers[number]) for number in handlers
              if able and signal.getsignal(number) not in (None, signal.SIG_IGN)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Shown:
    """Standard output or error. After a first failure what is written there goes nowhere.

    must_show: whether that failure is raised, as an OSError that names standard output
    """

    def __init__(self, stream, number, must_show):
        self.stream = stream or open(os.devnull, "w", encoding="utf-8")
        self.stream.reconfigure(errors="replace")             # "?" for what it cannot show
        self.number, self.must_show = number, must_show

    def __getattr__(self, name):
        return getattr(self.stream, name)

    def write(self, text):
        return self._or_nowhere(self.stream.write, text)

    def flush(self):
        self._or_nowhere(self.stream.flush)

    def _or_nowhere(self, show, *text):
        try:
            return show(*text)
        except OSError as error:
            with open(os.devnull, "wb") as nowhere:
                os.dup2(nowhere.fileno(), self.number)
            if self.must_show:
                raise OSError(error.errno, error.strerror, STDOUT) from None


@contextmanager
def _own_streams(must_show):
    """sys.stdout and sys.stderr as _Shown; those that were replaced before, as by pytest, stay.

    A descriptor that is closed leads to nowhere. Else the next file to be opened would get its
    number, and with it a library's messages.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    before = sys.stdout, sys.stderr
    if sys.stdout is sys.__stdout__:
        sys.stdout = _Shown(sys.stdout, 1, must_show)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _Shown(sys.stderr, 2, must_show=False)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        atexit.register(_deaf_to_ctrl_c)


def _deaf_to_ctrl_c():
    """While Python ends: nothing is left to stop, and it would show a traceback."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def cut_report(config, lengths):
    """One line on how many sentences of these lengths (n,) a Transformer's ModelConfig cuts."""
    return (f"{(lengths > config.max_tokens).sum():,} of {len(lengths):,} sentences have more than "
            f"{config.max_tokens} words and are cut there")
