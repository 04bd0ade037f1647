"""The data sets that download.py knows: where they are, what they hold, how to tell that they are right.

None stands for what is not known, and is then not checked. Where the figures come from:
- rows: the STS Benchmark's readme; SNLI's page (unlabelled pairs included); the readmes of SemEval Task 3;
  the overview papers of the STS tasks (scored pairs) and of SemEval-2014 Task 1;
- first: `check.fingerprint` of the first pair, computed from official files; SNLI's and SICK's first training
  pairs from their text as published;
- sizes: of the archives, rounded.
"""

from typing import NamedTuple

WIKI = "http://ixa2.si.ehu.es/stswiki/images/"
QCRI = "http://alt.qcri.org/"


class Source(NamedTuple):
    """A place to fetch an archive from.

    sha256: 64 digits; where only its beginning is known, that and "…".
    """

    url: str
    sha256: str | None = None


class File(NamedTuple):
    """A file that a set needs. rows: its pairs (scores in STS.gs.*); first: the first pair's fingerprint."""

    name: str
    rows: int | None = None
    first: str | None = None


class Archive(NamedTuple):
    """Sources in order of preference, and the files that each of them holds, in whatever folder."""

    sources: tuple
    files: tuple


class DataSet(NamedTuple):
    """A set of files, which come to stand in the folder of that name.

    kind: the reader in check.py; limit: bytes that an archive may expand to; extras: files to keep with them.
    """

    use: str
    licence: str
    size: str
    folder: str
    kind: str
    limit: int
    archives: tuple
    extras: tuple = ()


def official_and_archived(url, **known):
    """An official source that is often down, then the copy that the Internet Archive may have of it."""
    return Source(url, **known), Source(f"https://web.archive.org/web/20220101000000id_/{url}", **known)


def sts_of_year(year, sources, prefix, scored, lines_match):
    """The English test data of an STS task.

    scored: name → scored pairs; lines_match: whether each line of the input is scored.
    """
    files = []
    for name, rows in scored.items():
        files += [File(f"{prefix}.input.{name}.txt", rows if lines_match else None), File(f"{prefix}.gs.{name}.txt", rows)]
    return DataSet(f"STS {year}: {sum(scored.values()):,} scored pairs (no command reads it yet)", "each source's own",
                   "< 1 MB", f"sts{year}", "sts_year", 50_000_000, (Archive(sources, tuple(files)),))


REGISTRY = {
    "stsbenchmark": DataSet(
        "similarity: evaluation.sts, tune", "scores CC BY-SA 4.0, texts mixed", "0.4 MB", "stsbenchmark", "sts", 50_000_000,
        (Archive(
            (Source(WIKI + "4/48/Stsbenchmark.tar.gz", sha256="557a86ab…"),
             Source("https://sbert.net/datasets/stsbenchmark.tsv.gz"),        # one table; unpack.py gives it the official layout
             *official_and_archived(WIKI + "4/48/Stsbenchmark.tar.gz", sha256="557a86ab…")[1:]),
            (File("sts-train.csv", 5_749, "ac54c1da33c31dac"),
             File("sts-dev.csv", 1_500, "510a828b4973355d"),
             File("sts-test.csv", 1_379))),),
        extras=("readme.txt", "LICENSE.txt")),

    "snli": DataSet(
        "entailment: the paper's second task", "CC BY-SA 4.0", "95 MB", "snli_1.0", "snli", 2_000_000_000,
        (Archive(
            (Source("https://nlp.stanford.edu/projects/snli/snli_1.0.zip",
                    sha256="afb3d70a5af5d8de0d9d81e2637e0fb8c22d1235c2749d83125ca43dab0dbd3e"),),
            (File("snli_1.0_train.jsonl", 550_152, "44a44c588fb87678"),
             File("snli_1.0_dev.jsonl", 10_000, "a9833ac17ba540a4"),
             File("snli_1.0_test.jsonl", 10_000, "7bbdb0ae6dfcd8fc"))),),
        extras=("README.txt",)),

    "cqa": DataSet(
        "question ranking: evaluation.cqa", "free for research", "not known", "cqa", "cqa", 1_000_000_000,
        (Archive(official_and_archived(QCRI + "semeval2016/task3/data/uploads/semeval2016-task3-cqa-ql-traindev-v3.2.zip"),
                 (File("SemEval2016-Task3-CQA-QL-train-part1.xml", 1_999, "c32395f0eabba696"),
                  File("SemEval2016-Task3-CQA-QL-train-part2.xml", 670, "c04c25be19a27a7e"),
                  File("SemEval2016-Task3-CQA-QL-dev.xml", 500, "19e64187aaac0f11"))),
         Archive(official_and_archived(QCRI + "semeval2016/task3/data/uploads/semeval2016_task3_test.zip"),
                 (File("SemEval2016-Task3-CQA-QL-test.xml", 700, "05113aa71e982c30"),)),
         Archive(official_and_archived(QCRI + "semeval2017/task3/data/uploads/semeval2017_task3_test.zip"),
                 (File("SemEval2017-task3-English-test.xml", 880),)))),

    "sick": DataSet(
        "relatedness and entailment (no command reads it yet)", "CC BY-NC-SA 3.0", "< 1 MB", "sick", "sick", 50_000_000,
        tuple(Archive(official_and_archived(QCRI + f"semeval2014/task1/data/uploads/{archive}.zip"), (file,))
              for archive, file in (("sick_train", File("SICK_train.txt", 4_500, "15641a2a6290248a")),
                                    ("sick_trial", File("SICK_trial.txt", 500)),
                                    ("sick_test_annotated", File("SICK_test_annotated.txt", 4_927))))),

    "sts2012": sts_of_year(2012, official_and_archived(WIKI + "4/40/STS2012-en-test.zip"), "STS", {
        "MSRpar": 750, "MSRvid": 750, "SMTeuroparl": 459, "surprise.OnWN": 750, "surprise.SMTnews": 399}, True),
    "sts2013": sts_of_year(2013, official_and_archived(WIKI + "2/2f/STS2013-en-test.zip"), "STS", {
        "FNWN": 189, "headlines": 750, "OnWN": 561}, True),
    "sts2014": sts_of_year(2014, official_and_archived(WIKI + "8/8c/STS2014-en-test.zip"), "STS", {
        "deft-forum": 450, "deft-news": 300, "headlines": 750, "images": 750, "OnWN": 750, "tweet-news": 750}, True),
    "sts2015": sts_of_year(2015, official_and_archived(WIKI + "d/da/STS2015-en-test.zip"), "STS", {
        "answers-forums": 375, "answers-students": 750, "belief": 375, "headlines": 750, "images": 750}, False),
    "sts2016": sts_of_year(2016, official_and_archived(WIKI + "9/98/STS2016-en-test.zip"), "STS2016", {
        "answer-answer": 254, "headlines": 249, "plagiarism": 230, "postediting": 244, "question-question": 209}, False),
    "sts2017": DataSet(
        "STS 2017: 250 scored pairs (no command reads it yet)", "each source's own", "< 1 MB", "sts2017", "sts_year", 50_000_000,
        (Archive((Source(WIKI + "2/20/Sts2017.eval.v1.1.zip"),
                  Source(QCRI + "semeval2017/task1/data/uploads/sts2017.eval.v1.1.zip")),
                 (File("STS.input.track5.en-en.txt", 250),)),
         Archive((Source(WIKI + "7/70/Sts2017.gs.zip"),
                  Source(QCRI + "semeval2017/task1/data/uploads/sts2017.gs.zip")),
                 (File("STS.gs.track5.en-en.txt", 250),)))),

    "convokit-reddit-small": DataSet(
        "conversations for prepare_reddit.py, 100 subreddits", "none stated", "not known", "reddit-corpus-small", "convokit",
        4_000_000_000,
        (Archive(
            (Source("https://zissou.infosci.cornell.edu/convokit/datasets/reddit-corpus-small/reddit-corpus-small.zip"),),
            (File("utterances.jsonl"),)),),
        extras=("speakers.json", "conversations.json", "corpus.json", "index.json")),
}
