"""What commands there are, a line each: python -m convsim_mini"""

COMMANDS = {
    "train": "train a sentence encoder on conversations",
    "encode RUN": "embed sentences, compare them, search a file",
    "evaluation RUN": "measure a run: replies, STS, inference, question ranking",
    "tune RUN --data DIR": "learn one matrix on top from human similarity scores",
    "report RUN…": "every table and figure of the paper from your own runs",
    "report.fractions RUN": "train the runs of the paper's figure 8",
}

if __name__ == "__main__":
    for command, purpose in COMMANDS.items():
        print(f"python -m convsim_mini.{command:21} {purpose}")
    print("--help after any of them says more")
