"""The commands' common ground: options through jsonargparse, mistakes in one line, exit code 2."""

import argparse
import sys
from contextlib import contextmanager

import jsonargparse


class UserError(Exception):
    """A mistake that a user can make and mend.

    The message says where, what was found, what was expected and what to do.
    """


class _OneLine:
    def error(self, message, ex=None):
        """Raise UserError with the message, its line breaks removed."""
        raise UserError(" ".join(str(message).split()) + " (see --help)")


class Parser(_OneLine, jsonargparse.ArgumentParser):
    """A parser of dataclasses' fields, whose complaints are one line."""


class TextParser(_OneLine, argparse.ArgumentParser):
    """A parser for commands that take texts or files before, between and after options.

    Only argparse's own `parse_intermixed_args` can do that.
    """


def run_command(main):
    """Run a command whose options are the parameters of main; its docstring is the help text.

    A UserError becomes one line on standard error and exit code 2, never a traceback.
    """
    with errors_in_one_line():
        jsonargparse.auto_cli(main, parser_class=Parser)


@contextmanager
def errors_in_one_line():
    """Turn a UserError into one line on standard error and exit code 2."""
    try:
        yield
    except UserError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
