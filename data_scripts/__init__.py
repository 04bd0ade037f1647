"""From what can be downloaded to what the other commands read; needs data_scripts/requirements.txt.

Two ways lead through here. `download` fetches the public data sets: names of sets enter, files
in data/ leave, checked against the official ones. Read registry → fetch → unpack → check →
download. `prepare_reddit` makes pairs: dumps of comments enter, (input, response) pairs leave, as
Parquet, as JSON lines and packed for training; `stats` describes them. Read dump_files → comments
→ buckets → tasks → prepare_reddit → stats.
"""
