"""Do published splits leak?  python tests/benchmarks/leaks.py DIR

What share of the different texts of a test stands in train, with equal tokens, by role. DIR is
where `data_scripts.download stsbenchmark snli cqa` put them. The other sets are shown after `pip
install insuranceqa-data mteb`. Only texts are compared; no label is looked at. Of turns, mteb's own
counts of equal strings are shown.
"""

import gzip
import json
import sys
from importlib.util import find_spec
from pathlib import Path

from contenders import ROOT    # noqa: F401  (and the repository's path)
from convsim_mini.common.show import table
from convsim_mini.core.text import tokenize
from convsim_mini.data.labelled import find_snli, read_snli
from convsim_mini.evaluation import cqa, sts

TURNS = ["PerShopIntent", "ToxicChat", "MassiveIntent", "MTOPIntent", "Banking77"]    # mteb's names


def texts(some):
    """The different texts, as tuples of tokens."""
    return {tuple(tokenize(text)) for text in some}


def forum(data, *names):
    """Role → texts of files of SemEval's task B."""
    questions = [one for name in names for one in cqa.read(
        Path(data, "cqa", f"SemEval2016-Task3-CQA-QL-{name}.xml"))]
    return {"asked": texts(one.text for one in questions),
            "related": texts(found.text for one in questions for found in one.candidates)}


def insurance(split):
    """Role → texts of a split of InsuranceQA; the answers are the right ones."""
    folder, = find_spec("insuranceqa_data").submodule_search_locations

    def load(name):
        with gzip.open(Path(folder, f"{name}.json.gz")) as file:
            return json.load(file)

    answers, asked = load("answers"), load(split).values()
    return {"question": texts(one["en"] for one in asked),
            "answer": texts(answers[key]["en"] for one in asked for key in one["answers"])}


def turns():
    """Yield a row of the table for each set of turns, the English ones where there are several."""
    package, = find_spec("mteb").submodule_search_locations
    for name in TURNS:
        path = Path(package, "descriptive_stats", "Classification", f"{name}Classification.json")
        counts = json.loads(path.read_text(encoding="utf-8"))["test"]
        counts = counts.get("hf_subset_descriptive_stats", {}).get("en", counts)
        different = counts["text_statistics"]["unique_texts"]
        yield [f"{name}, test", "turn", f"{different:,}",
               f"turn {counts['samples_in_train'] / different:.1%}"]


def sets(data):
    """Yield name, role → texts of train, role → texts of test."""
    train = forum(data, "train-part1", "train-part2")
    yield "SemEval 2016 CQA, test", train, forum(data, "test")
    yield "SemEval 2016 CQA, dev", train, forum(data, "dev")
    both = [{"sentence": texts(sts.texts_of(some))}
            for some in map(sts.read, sts.find(data)[sts.GENRES])]
    yield "STS Benchmark, dev", *both
    files = find_snli(data, ("train", "test"))
    both = [{"premise": texts(some.premises), "hypothesis": texts(some.hypotheses)}
            for some in (read_snli(files[split]) for split in ("train", "test"))]
    yield "SNLI 1.0, test", *both
    if find_spec("insuranceqa_data"):
        yield "InsuranceQA, test", insurance("train"), insurance("test")


def main(data):
    rows = [[name, role, f"{len(found):,}",
             *(f"{other} {len(found & known) / len(found):.1%}" for other, known in train.items())]
            for name, train, test in sets(data) for role, found in test.items()]
    rows += turns() if find_spec("mteb") else []
    print(table(["set", "role in the test", "texts", "in train as …", ""],
                [[*row, *[""] * (5 - len(row))] for row in rows]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
