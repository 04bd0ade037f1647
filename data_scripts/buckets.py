"""The two kinds of task that turn dumps into pairs: parse one dump into buckets, join one bucket.

A task reads finished files, writes to a temporary folder, and renames that folder when it is
complete. So a task may be killed and repeated: the bytes in the finished folder are the same.

    .convsim_mini.work/parsed/00003/bucket-007.parquet, report.json   what dump 3 holds for bucket 7
    .convsim_mini.work/joined/007/pairs.parquet, pairs.jsonl.zst, report.json
"""

import json
import shutil
import zlib
from collections import Counter
from pathlib import Path

import duckdb
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from convsim_mini.common.files import new_folder
from convsim_mini.common.lines import zstd
from data_scripts.comments import DumpLines, clean, read_comment

AGAIN = "what is finished is kept: run the same command again"
AT_A_TIME = 250_000    # comments held in memory until they are written
MEMORY = "1GB"         # that duckdb may take for a join; what needs more goes to disk
SAMPLES = 10           # malformed lines of a dump shown in its report

SCHEMA = pa.schema([("link", pa.string()), ("id", pa.string()), ("parent", pa.string()),
                    ("text", pa.string()), ("author", pa.uint32()),    # a hash; 0: unknown
                    ("place", pa.int64())])

# If a comment occurs several times, the first copy that passed the filters counts.
GATHER = """
    CREATE TEMP TABLE comments AS
    SELECT link, id, arg_min(parent, place) AS parent, arg_min(text, place) AS text,
           arg_min(author, place) AS author, count(*) AS copies
    FROM read_parquet([{files}]) GROUP BY link, id
"""
COLUMNS = "input", "response", "link_id"    # of what training reads; it splits by the last
COUNT = "SELECT sum(copies), count(*), count(*) FILTER (parent <> '') FROM comments"
# The order of the pairs is that of their ids: nothing depends on the order in which files are read.
JOIN = """
    COPY (
        SELECT one.link AS link_id, one.id AS input_id, other.id AS response_id,
               one.text AS input, other.text AS response
        FROM comments AS one
        JOIN comments AS other ON other.link = one.link AND other.parent = one.id
        WHERE one.author = 0 OR one.author <> other.author    -- no replies to oneself
        ORDER BY link_id, input_id, response_id
    ) TO {target} (FORMAT parquet, COMPRESSION zstd)
"""


# ---------------------------------------------------------------- parse a dump

def parse_dump(path, number, buckets, work):
    """Read dump `number` and write what passes the filters to `buckets` Parquet files.

    The dump's report counts its lines, the malformed ones (with some examples), the comments
    removed for each reason, and those kept. If a dump is cut, the report says where.
    """
    folder = work / "parsed" / f"{number:05d}"
    if folder.is_dir():
        return
    lines, removed, malformed, samples = DumpLines(path), Counter(), 0, []
    with new_folder(folder, AGAIN) as temporary, _Buckets(temporary, buckets) as out:
        for line in lines:
            try:
                comment = read_comment(line)
            except ValueError as error:
                if lines.open_end:
                    lines.cut = f"in the middle of line {lines.number}"
                    lines.number -= 1
                    break
                malformed += 1
                if len(samples) < SAMPLES:
                    samples.append({"line": lines.number, "reason": str(error),
                                    "text": line[:200].decode("utf-8", "replace")})
                continue
            text, reason = clean(comment)
            if reason:
                removed[reason] += 1
            else:
                out.add(comment, text, number << 40 | lines.number)
        _write_json(temporary / "report.json", {
            "lines": lines.number, "malformed": malformed, "samples": samples, "cut": lines.cut,
            "removed": dict(sorted(removed.items())), "kept": out.kept})


class _Buckets:
    """Appends comments to one Parquet file per bucket; a hash of the comment's link chooses it."""

    def __init__(self, folder, buckets):
        self.waiting, self.kept = [[] for _ in range(buckets)], 0
        self.writers = [pq.ParquetWriter(folder / f"bucket-{k:03d}.parquet", SCHEMA,
                                         compression="zstd", use_dictionary=False,
                                         write_statistics=False) for k in range(buckets)]

    def add(self, comment, text, place):
        """Take one comment; write all that wait if they are many."""
        # One flat list: half a million tuples would keep the garbage collector busy.
        self.waiting[zlib.crc32(comment.link.encode()) % len(self.waiting)] += (
            comment.link, comment.id, comment.parent, text,
            zlib.crc32((comment.author or "").encode("utf-8", "replace")), place)
        self.kept += 1
        if self.kept % AT_A_TIME == 0:
            self._flush()

    def _flush(self):
        for writer, rows in zip(self.writers, self.waiting):
            if rows:
                columns = [pa.array(rows[k::len(SCHEMA)], field.type)
                           for k, field in enumerate(SCHEMA)]
                writer.write_table(pa.Table.from_arrays(columns, schema=SCHEMA))
                rows.clear()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self._flush()
        for writer in self.writers:
            writer.close()


# ---------------------------------------------------------------- join a bucket

def join_bucket(bucket, dumps, work):
    """Pair the comments of one bucket, gathered from all `dumps`, with the replies to them."""
    folder = work / "joined" / f"{bucket:03d}"
    if folder.is_dir():
        return
    files = [str(work / "parsed" / f"{number:05d}" / f"bucket-{bucket:03d}.parquet")
             for number in range(dumps)]
    with new_folder(folder, AGAIN) as temporary, duckdb.connect() as database:
        # One thread: the order of work must not show, and there is one process per core already.
        database.execute(f"SET threads = 1; SET memory_limit = '{MEMORY}'")
        database.execute(f"SET temp_directory = {_sql(temporary / 'spill')}")
        database.execute(GATHER.format(files=", ".join(map(_sql, files))))
        counts = database.execute(COUNT).fetchone()
        comments, different, replies = (number or 0 for number in counts)
        database.execute(JOIN.format(target=_sql(temporary / "pairs.parquet")))
        pairs = _write_lines(database, temporary)
        shutil.rmtree(temporary / "spill", ignore_errors=True)
        _write_json(temporary / "report.json", {
            "comments": comments, "duplicates": comments - different, "replies": replies,
            "pairs": pairs})


def _write_lines(database, folder):
    """Write the pairs again, as JSON lines for training, in a zstd frame; → number of pairs."""
    table = f"read_parquet({_sql(folder / 'pairs.parquet')})"
    rows = database.execute(f"SELECT input, response, link_id FROM {table}")
    pairs = 0
    options = {zstd.CompressionParameter.checksum_flag: True}
    with zstd.open(folder / "pairs.jsonl.zst", "wb", options=options) as stream:
        while some := rows.fetchmany(10_000):
            pairs += len(some)
            stream.write(b"".join(orjson.dumps(dict(zip(COLUMNS, row)),
                                               option=orjson.OPT_APPEND_NEWLINE) for row in some))
    return pairs


def _sql(path):
    """A path as a literal of SQL."""
    return "'" + str(path).replace("'", "''") + "'"


def _write_json(path, value):
    Path(path).write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
