"""From what can be downloaded to what the other commands read.

There are three commands. Each file uses those above it:

    registry, check                     where the public data sets are; is a file the official one?
    archives, download                  one archive; names of sets → their official files in data/
    comments, buckets                   lines of a dump → comments → pairs of one bucket
    tasks, prepare_reddit               dumps → pairs: Parquet, JSON lines, packed for training
    chats_of_text, chats_of_json        exports of one program → messages
    chats                               exports → a log; needs no more libraries than the package
"""

from convsim_mini.common.cli import python_m

INSTALL = "run " + python_m("pip install -r data_scripts/requirements.txt")
