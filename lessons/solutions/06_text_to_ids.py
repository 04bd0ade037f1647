"""Solutions of lesson 6, Text to ids.

1: Try the farthest end first: what fits is the longest piece, and the rest is split likewise.
In "zebrafish" "##af" takes the f, so "##fish" no longer fits. Nothing goes back to look for it.
"""

from prove import run_lesson, solution

run_lesson(__file__)


def solution_split(word, pieces, mark=""):
    for end in range(len(word), 0, -1):
        if mark + word[:end] in pieces:
            rest = solution_split(word[end:], pieces, "##")
            return [mark + word[:end], *rest] if rest or end == len(word) else []
    return []


def tempting_no_mark(word, pieces):
    return [piece.removeprefix("##") for piece in solution_split(word, pieces)]


def tempting_partial(word, pieces, mark=""):
    for end in range(len(word), 0, -1):
        if mark + word[:end] in pieces:                       # and whatever comes after
            return [mark + word[:end], *tempting_partial(word[end:], pieces, "##")]
    return []


solution(1, solution_split, tempting_no_mark, tempting_partial, lambda word, pieces: [])
