"""From what can be downloaded to what the other commands read.

There are three commands. Each file uses those above it:

    registry, check                     where the public data sets are; is a file the official one?
    archives, download                  one archive; names of sets → their official files in data/
    comments, buckets                   lines of a dump → comments → pairs of one bucket
    tasks, prepare_reddit               dumps → pairs: Parquet, JSON lines, packed for training
    whatsapp, line_and_irc              exports as text → messages
    chats_of_json                       exports as JSON → messages
    chats                               exports → a log; needs no more libraries than the package
"""

import sys
from contextlib import contextmanager

from convsim_mini.common.cli import python_m


@contextmanager
def libraries():
    """For imports of what requirements.txt lists: if one is missing, the program ends, code 2."""
    try:
        yield
    except ModuleNotFoundError as error:
        install = python_m("pip install -r data_scripts/requirements.txt")
        print(f"error: it needs {error.name}; run {install}", file=sys.stderr)
        sys.exit(2)
