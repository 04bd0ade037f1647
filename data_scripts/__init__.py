"""From what can be downloaded to what the other commands read; needs data_scripts/requirements.txt.

There are three commands. Each file uses those above it:

    registry, fetch, unpack, check      where the public data sets are; one archive; its files
    download                            names of sets → files in data/, equal to the official ones
    dump_files, comments, buckets       lines → comments → pairs of one bucket
    tasks, prepare_reddit               dumps → pairs: Parquet, JSON lines, packed for training
    chats_of_text, chats_of_json        exports of one program → messages
    chats                               exports → a log; needs no more libraries than the package
"""

import sys
from importlib.util import find_spec

NEEDED = ("requests", "urllib3", "dask", "distributed", "duckdb", "orjson", "pyarrow")

missing = [name for name in NEEDED if not find_spec(name)]
# if a command starts here
if missing and sys.argv[0] == "-m" and "data_scripts.chats" not in sys.orig_argv:
    print(f"error: {', '.join(missing)}: not installed; install what data_scripts needs: "
          f"{sys.executable} -m pip install -r data_scripts/requirements.txt", file=sys.stderr)
    sys.exit(2)
