"""From what can be downloaded to what the other commands read; needs data_scripts/requirements.txt.

Three ways lead through here. `download` fetches the public data sets: names of sets enter, files
in data/ leave, checked against the official ones. Read registry → fetch → unpack → check →
download. `prepare_reddit` makes pairs: dumps of comments enter, (input, response) pairs leave, as
Parquet, as JSON lines and packed for training; `stats` describes them. Read dump_files → comments
→ buckets → tasks → prepare_reddit → stats. `chats` makes a log of a chat export, without more
libraries than the package has.
"""

import sys
from importlib.util import find_spec

NEEDED = ("requests", "urllib3", "dask", "distributed", "duckdb", "orjson", "pyarrow")

missing = [name for name in NEEDED if not find_spec(name)]
# a command, which begins here
if missing and sys.argv[0] == "-m" and "data_scripts.chats" not in sys.orig_argv:
    print(f"error: {', '.join(missing)}: not installed; install what data_scripts needs: "
          f"{sys.executable} -m pip install -r data_scripts/requirements.txt", file=sys.stderr)
    sys.exit(2)
