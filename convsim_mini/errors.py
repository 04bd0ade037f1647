"""Mistakes that a user can make and mend: one line on standard error, exit code 2."""

import sys


class UserError(Exception):
    """The message says where, what was found, what was expected and what to do."""


def run_command(main):
    """Run a command's main(); a UserError becomes one line and exit code 2, never a traceback."""
    try:
        main()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
