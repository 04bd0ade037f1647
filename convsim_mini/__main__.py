"""What commands there are, a line each: python -m convsim_mini"""

from . import COMMANDS
from .common.cli import errors_in_one_line, python_m

with errors_in_one_line():
    print(python_m("convsim_mini.NAME [--help]"))
    for command, purpose in COMMANDS.items():
        print(f"  {command:22} {purpose}")
