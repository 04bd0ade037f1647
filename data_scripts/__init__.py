"""From what can be downloaded to what the other commands read; needs data_scripts/requirements.txt.

There are four commands. `download` fetches the public data sets: it takes names of sets and puts
files into data/, checked against the official ones. Read registry → fetch → unpack → check →
download. `prepare_reddit` turns dumps of comments into (input, response) pairs, as Parquet, as JSON
lines and packed for training; `stats` describes them. Read dump_files → comments → buckets → tasks
→ prepare_reddit → stats. `chats` turns a chat export into a log, and needs no more libraries than
the package.
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
