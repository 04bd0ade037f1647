"""Talk to a run: it answers each message with the best replies from the pairs it learned from.

    python -m convsim_mini.chat RUN
    python -m convsim_mini.chat RUN --replies FILE

Below each reply is the message that it once answered. Press Ctrl-D to stop.
"""

if not __package__:
    raise SystemExit("run it by name, in the repository: python -m convsim_mini.chat")

import sys
from contextlib import suppress

from .fast.host import use_all_cores
from .common.cli import errors_in_one_line, one_line, parser_of, path_of, positive_int
from .data.layouts import Reading
from .inference.replies import best_replies, replies_of_run
from .inference.sentence_encoder import encoder_of, warn_if_unknown
from .inference.stored import index_at
from .training.run import load_run

with suppress(ImportError):                                   # Windows has none
    import readline    # noqa: F401 - gives `input` line editing and history

ANSWERED = 100    # characters shown of the message that a reply once answered


def talk(index, k):
    """Answer each message that is typed with its k best replies."""
    print(f"{len(index):,} replies. Type a message, or press Ctrl-D to stop.")
    sys.stdin.reconfigure(encoding="utf-8", errors="replace")
    with suppress(EOFError):
        while True:
            message = input("> ")
            if not message.strip():
                continue
            warn_if_unknown([message], index.encoder.vocabulary)
            for score, reply, said in best_replies(index, message, k):
                print(f"  {score:.2f}  {one_line(reply)}")
                if said:
                    print(f"        to: {one_line(said, ANSWERED)}")
    print()                                                   # the shell's prompt gets a new line


@errors_in_one_line()
def main(argv=None):
    """The command: open the replies, then answer each message."""
    parser = parser_of("chat", __doc__)
    parser.add_argument("--replies", type=path_of, metavar="FILE", help="take the replies from "
                        "FILE (lines, a table, or an index that `encode --replies` made), not from "
                        "the run's first 200,000 pairs")
    parser.add_argument("--columns", nargs=2, metavar=("INPUT", "RESPONSE"), default=(),
                        help="the columns of FILE that hold messages and replies")
    parser.add_argument("--encoding", metavar="NAME", default="utf-8", help="the encoding of FILE")
    parser.add_argument("--k", type=positive_int, default=3, help="how many replies to show")
    options = parser.parse_intermixed_args(argv)
    use_all_cores()
    run = load_run(options.run)
    encoder = encoder_of(run)
    if options.replies:
        reading = Reading(options.columns, options.encoding, encoder.columns, side="response")
        index = index_at(encoder, options.replies, reading)
    else:
        index = replies_of_run(encoder, run)
    talk(index, options.k)


if __name__ == "__main__":
    main()
