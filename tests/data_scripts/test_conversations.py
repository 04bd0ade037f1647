"""The same conversations, as logs, tables, chats and exports of programs, are the same pairs."""

import json
import random
from datetime import UTC, datetime
from itertools import groupby, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_scripts import chats

from pair_files import read, written

DAY, BEGIN = 86_400, 1_705_200_000    # the 14th: no number of a month
MESSAGES = st.lists(st.tuples(st.sampled_from(["Ann", "Bo", "Cy"]), st.text("abcé!?", max_size=4),
                              st.sampled_from([60, 3_600, DAY, DAY + 60])), max_size=8)
THREADS = st.lists(MESSAGES, max_size=4).map(lambda threads: [    # each text is another
    [(speaker, f"{number}.{place}{text}", wait) for place, (speaker, text, wait) in enumerate(some)]
    for number, some in enumerate(threads)])


def pairs_of(threads, longest=DAY):
    """The pairs by definition: turns of one speaker, no silence longer than this between them."""
    found = []
    for messages in threads:
        parts = [[]]
        for speaker, text, wait in messages:
            if wait > longest and parts[-1]:
                parts.append([])
            parts[-1].append((speaker, text))
        for part in parts:
            turns = [(speaker, " ".join(text for _, text in said))
                     for speaker, said in groupby(part, key=lambda message: message[0])]
            found += [(text, reply, who, other)
                      for (who, text), (other, reply) in pairwise(turns)]
    return sorted(found)


def pairs_in(source):
    """The pairs that are read of a file or a table."""
    return sorted(pair[:4] for pair in read(source))


def rows_of(threads):
    """The messages as rows of a log, whose ids start anew in each thread."""
    for number, messages in enumerate(threads):
        time = BEGIN
        for place, (speaker, text, wait) in enumerate(messages):
            time += wait
            yield {"thread": f"t{number}", "id": place, "reply_to": place - 1 if place else None,
                   "speaker": speaker, "text": text, "time": time}


def without(rows, *names):
    return [{name: value for name, value in row.items() if name not in names} for row in rows]


@settings(max_examples=40, deadline=None)
@given(THREADS, st.randoms(use_true_random=False))
def test_conversations_are_the_same_pairs_in_every_form(tmp_path_factory, threads, rng):
    rows, folder = [*rows_of(threads)], tmp_path_factory.mktemp("said")
    expected, answers = pairs_of(threads), pairs_of(threads, 2 * DAY)
    shuffled = random.Random(rng.random()).sample(rows, len(rows))
    log = without(shuffled, "id", "reply_to")
    if answers:                                               # else nothing answers anything
        for some in (rows, shuffled, rows[::-1]):             # what people say that they answer
            assert pairs_in(written(folder / "log.jsonl", some)) == answers
        assert pairs_in(written(folder / "log.jsonl", without(rows, "time"))) == answers
        if len({row["thread"] for row in rows}) == 1:
            assert pairs_in(without(rows, "time", "thread")) == answers
        in_order = without(rows, "id", "reply_to", "time")    # nobody knows about silences
        assert pairs_in(written(folder / "log.jsonl", in_order)) == answers
    if not expected:
        return
    iso = [row | {"time": datetime.fromtimestamp(row["time"], UTC).isoformat()} for row in log]
    for some in (log, iso, pytest.importorskip("pandas").DataFrame(log)):
        assert pairs_in(some) == expected
    table = [["Thread", "Speaker", "Text", "Date"], *(
        [row["thread"], row["speaker"], row["text"], row["time"]] for row in iso)]
    assert pairs_in(written(folder / "log.csv", table)) == expected
    chat = [{"messages": [{"role": row["speaker"], "content": row["text"], "ts": row["time"]}
                          for row in log if row["thread"] == f"t{k}"]} for k in range(len(threads))]
    assert pairs_in(written(folder / "chats.jsonl", chat)) == expected


@settings(max_examples=20, deadline=None)
@given(THREADS, st.sampled_from(["%d/%m/%Y, %H:%M - ", "%m/%d/%y, %I:%M %p - ",
                                 "[%Y-%m-%d, %H:%M:%S] "]))
def test_conversations_are_the_same_pairs_in_exports_of_programs(tmp_path_factory, threads, stamp):
    rows, folder = [*rows_of(threads)], tmp_path_factory.mktemp("said")
    expected = pairs_of(threads)
    if not expected:
        return
    of_threads = [[row for row in rows if row["thread"] == f"t{k}"] for k in range(len(threads))]

    def read_export(name, export):
        path = folder / name
        path.write_text(export if isinstance(export, str) else json.dumps(export), encoding="utf-8")
        (folder / "log.jsonl").unlink(missing_ok=True)
        chats.main([str(path), "--out", str(folder / "log.jsonl")])
        return pairs_in(folder / "log.jsonl")

    assert read_export("result.json", [{"messages": [
        {"type": "message", "from": row["speaker"], "text": row["text"], "id": row["id"],
         "date_unixtime": str(row["time"])} for row in some]} for some in of_threads]) == expected
    assert read_export("messages.json", [{"messages": [
        {"sender_name": row["speaker"], "content": row["text"].encode().decode("latin-1"),
         "timestamp_ms": 1_000 * row["time"]} for row in some[::-1]]} for some in of_threads]
        ) == expected
    for some, messages in zip(of_threads, threads):
        if right := pairs_of([messages]):
            text = "\n".join(f"{datetime.fromtimestamp(row['time'], UTC):{stamp}}{row['speaker']}: "
                             f"{row['text']}" for row in some)
            assert read_export("chat.txt", text) == right
