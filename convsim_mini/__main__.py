"""What commands there are, a line each: python -m convsim_mini"""

from . import COMMANDS
from .common.cli import errors_in_one_line

with errors_in_one_line():
    for command, purpose in COMMANDS.items():
        print(f"python -m convsim_mini.{command:22} {purpose}")
    print("--help after any of them says more")
