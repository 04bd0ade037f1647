"""All commands, one per line: python -m convsim_mini"""

from .common.cli import errors_in_one_line, python_m

COMMANDS = {    # python -m convsim_mini.NAME
    "minimal": "the whole idea in one file: NumPy, every gradient by hand",
    "train": "train a sentence encoder on conversations",
    "encode": "embed sentences, compare them, or search lines",
    "chat": "type a message and get the best replies from the corpus",
    "explore": "look at a run in a browser: replies, words, neighbours, attention",
    "evaluation": "measure and compare runs on every task with data; --out writes a page",
    "evaluation.search": "does a search find the right rows? Your own rows and queries",
    "tune": "learn one matrix on top of a run from people's similarity scores",
    "export": "write a run as a folder for sentence_transformers, or one that needs just NumPy",
}


@errors_in_one_line()
def main():
    """Print the commands, and what each does."""
    print(python_m("convsim_mini.NAME [--help]"))
    for command, purpose in COMMANDS.items():
        print(f"  {command:22} {purpose}")


if __name__ == "__main__":
    main()
