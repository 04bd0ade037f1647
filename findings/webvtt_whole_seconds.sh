#!/usr/bin/env bash
# Guess: a caption's start_in_seconds is 1.9 for 00:00:01.900, its text has & for &amp;, and
# iter_slice("00:00:02.000", "00:00:04.000") gives what is said in that span.
# Truth: 1: seconds are cut to whole ones, so that a pause of 0.1 s between two turns and one of
# 1 s are both 1; start_time.in_milliseconds() is exact. The text keeps &amp;. The slice holds only
# captions that lie in the span as a whole: here none, though someone speaks all along.
# webvtt-py 0.6.0, November 2026.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet webvtt-py==0.6.0
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import webvtt

def pause(start):
    one, two = webvtt.from_string(f"WEBVTT\n\n00:00:01.000 --> 00:00:01.900\n<v Ann>salt &amp; pepper?\n\n"
                                  f"00:00:{start} --> 00:00:05.000\n<v Bob>Thanks.\n")
    return two.start_in_seconds - one.end_in_seconds, one

print("a pause of 0.1 s:", pause("02.000")[0], " of 1.0 s:", pause("02.900")[0])
talk = webvtt.from_string("WEBVTT\n\n00:00:01.000 --> 00:00:03.000\na\n\n00:00:03.000 --> 00:00:05.000\nb\n")
slice_ = [caption.text for caption in talk.iter_slice(start="00:00:02.000", end="00:00:04.000")]
first = pause("02.000")[1]
print("text:", first.text, " slice:", slice_, " milliseconds:", first.end_time.in_milliseconds())
assert [pause(start)[0] for start in ("02.000", "02.900")] == [1, 1] and first.end_time.in_milliseconds() == 1900
assert first.text == "salt &amp; pepper?" and slice_ == []
PYTHON
