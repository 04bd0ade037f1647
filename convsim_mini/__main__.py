"""What commands there are, a line each: python -m convsim_mini"""

from . import COMMANDS

for command, purpose in COMMANDS.items():
    print(f"python -m convsim_mini.{command:22} {purpose}")
print("--help after any of them says more")
