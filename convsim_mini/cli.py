"""What all commands share: options, mistakes in one line and exit code 2, progress bars."""

import argparse
import difflib
import sys
from contextlib import contextmanager

from tqdm import tqdm


class UserError(Exception):
    """A user's mistake. The message says where, what was found and expected, and what to do."""


class Parser(argparse.ArgumentParser):
    """A parser that raises a UserError, which names the option that may have been meant."""

    def __init__(self, **kwargs):
        super().__init__(allow_abbrev=False, **kwargs)

    def error(self, message):
        """What argparse calls for a wrong command line."""
        wrong = message.removeprefix("unrecognized arguments: ").split("=")[0].split()
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
def errors_in_one_line():
    """Turn a UserError, or too little memory, into one line on standard error and exit code 2."""
    try:
        yield
    except UserError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(2)
    except MemoryError as error:
        sys.stderr.write(f"error: too little memory ({memory_reason(error)}); stop what else uses "
                         "it, or give less to work on at once\n")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


def cut_report(config, lengths):
    """One line on how many sentences of these lengths (n,) a Transformer's ModelConfig cuts."""
    return (f"{(lengths > config.max_tokens).sum():,} of {len(lengths):,} sentences have more than "
            f"{config.max_tokens} words and are cut there")
