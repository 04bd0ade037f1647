"""The data sets that `download` knows: where they are, what they hold, how to check them.

None stands for what is not known; it is then not checked. Where the figures come from:
- rows: the readme of the STS Benchmark; SNLI's page (its count includes unlabelled pairs); the
  readmes of SemEval Task 3; the overview papers of the STS tasks (scored pairs) and of SemEval-2014
  Task 1;
- first: `check.fingerprint` of the first pair, computed from the official files or copies of them;
  for the train sets of SNLI and SICK, from the pair as many publications quote it.
"""

from typing import NamedTuple

WIKI = "http://ixa2.si.ehu.es/stswiki/images/"
QCRI = "http://alt.qcri.org/"
SMALL, LARGE = 50_000_000, 4_000_000_000                      # bytes


class Source(NamedTuple):
    """A place to fetch an archive from.

    sha256: 64 digits; if only its beginning is known, those digits and "…".
    """

    url: str
    sha256: str | None = None


class File(NamedTuple):
    """A file that a set needs. rows: its pairs (or scores); first: the first pair's fingerprint."""

    name: str
    rows: int | None = None
    first: str | None = None


class Archive(NamedTuple):
    """Sources in order of preference, and the files that each of them holds, in any folder."""

    sources: tuple
    files: tuple


class DataSet(NamedTuple):
    """What --list shows of a data set, and the files that end up in its folder below --data.

    kind: the reader in check.py; limit: the most bytes that an archive may expand to; extras: files
    that are kept too, if the archive holds them.
    """

    use: str
    licence: str
    size: str
    folder: str
    kind: str
    limit: int
    archives: tuple
    extras: tuple = ()


def mirrored(url, **known):
    """An official source that is often down, then the Internet Archive's copy, if there is one."""
    return Source(url, **known), archived(url, **known)


def archived(url, **known):
    """The Internet Archive's copy of a source."""
    return Source(f"https://web.archive.org/web/20220101000000id_/{url}", **known)


def sts_of_year(year, path, scored, prefix="STS", all_scored=True):
    """The English test data of an STS task.

    scored: name → number of scored pairs; all_scored: False from 2015 on, when the input holds many
    more pairs, whose number is not known.
    """
    files = []
    for name, rows in scored.items():
        files.append(File(f"{prefix}.input.{name}.txt", rows if all_scored else None))
        files.append(File(f"{prefix}.gs.{name}.txt", rows))
    return DataSet(
        use=f"similarity: the task of {year}, {sum(scored.values()):,} scored pairs "
            "(no command reads it yet)",
        licence="each source's own", size="not known",
        folder=f"sts{year}", kind="sts_year", limit=SMALL,
        archives=(Archive(mirrored(WIKI + path), tuple(files)),))


REGISTRY = {
    "stsbenchmark": DataSet(
        use="similarity: evaluation.sts, tune",
        licence="scores CC BY-SA 4.0, texts mixed", size="0.4 MB",
        folder="stsbenchmark", kind="sts", limit=SMALL, extras=("readme.txt", "LICENSE.txt"),
        archives=(Archive(
            sources=(Source(WIKI + "4/48/Stsbenchmark.tar.gz", sha256="557a86ab…"),
                     Source("https://sbert.net/datasets/stsbenchmark.tsv.gz"),  # unpack.split_table
                     archived(WIKI + "4/48/Stsbenchmark.tar.gz", sha256="557a86ab…")),
            files=(File("sts-train.csv", 5_749, "ac54c1da33c31dac"),
                   File("sts-dev.csv", 1_500, "510a828b4973355d"),
                   File("sts-test.csv", 1_379))),)),

    "snli": DataSet(
        use="entailment: the paper's second task",
        licence="CC BY-SA 4.0", size="95 MB",
        folder="snli_1.0", kind="snli", limit=LARGE, extras=("README.txt",),
        archives=(Archive(
            sources=(Source(
                "https://nlp.stanford.edu/projects/snli/snli_1.0.zip",
                sha256="afb3d70a5af5d8de0d9d81e2637e0fb8c22d1235c2749d83125ca43dab0dbd3e"),),
            files=(File("snli_1.0_train.jsonl", 550_152, "44a44c588fb87678"),
                   File("snli_1.0_dev.jsonl", 10_000, "a9833ac17ba540a4"),
                   File("snli_1.0_test.jsonl", 10_000, "7bbdb0ae6dfcd8fc"))),)),

    "cqa": DataSet(
        use="question ranking, SemEval Task 3 of 2016 and 2017: evaluation.cqa",
        licence="free for research", size="not known",
        folder="cqa", kind="cqa", limit=LARGE,
        archives=(
            Archive(mirrored(QCRI + "semeval2016/task3/data/uploads/"
                             "semeval2016-task3-cqa-ql-traindev-v3.2.zip"), (
                File("SemEval2016-Task3-CQA-QL-train-part1.xml", 1_999, "c32395f0eabba696"),
                File("SemEval2016-Task3-CQA-QL-train-part2.xml", 670, "c04c25be19a27a7e"),
                File("SemEval2016-Task3-CQA-QL-dev.xml", 500, "19e64187aaac0f11"))),
            Archive(mirrored(QCRI + "semeval2016/task3/data/uploads/semeval2016_task3_test.zip"), (
                File("SemEval2016-Task3-CQA-QL-test.xml", 700, "05113aa71e982c30"),)),
            Archive(mirrored(QCRI + "semeval2017/task3/data/uploads/semeval2017_task3_test.zip"), (
                File("SemEval2017-task3-English-test.xml", 880),)))),

    "sick": DataSet(
        use="relatedness and entailment (no command reads it yet)",
        licence="CC BY-NC-SA 3.0", size="not known",
        folder="sick", kind="sick", limit=SMALL,
        archives=(
            Archive(mirrored(QCRI + "semeval2014/task1/data/uploads/sick_train.zip"), (
                File("SICK_train.txt", 4_500, "15641a2a6290248a"),)),
            Archive(mirrored(QCRI + "semeval2014/task1/data/uploads/sick_trial.zip"), (
                File("SICK_trial.txt", 500),)),
            Archive(mirrored(QCRI + "semeval2014/task1/data/uploads/sick_test_annotated.zip"), (
                File("SICK_test_annotated.txt", 4_927),)))),

    "sts2012": sts_of_year(2012, "4/40/STS2012-en-test.zip", {
        "MSRpar": 750, "MSRvid": 750, "SMTeuroparl": 459, "surprise.OnWN": 750,
        "surprise.SMTnews": 399}),
    "sts2013": sts_of_year(2013, "2/2f/STS2013-en-test.zip", {
        "FNWN": 189, "headlines": 750, "OnWN": 561}),
    "sts2014": sts_of_year(2014, "8/8c/STS2014-en-test.zip", {
        "deft-forum": 450, "deft-news": 300, "headlines": 750, "images": 750, "OnWN": 750,
        "tweet-news": 750}),
    "sts2015": sts_of_year(2015, "d/da/STS2015-en-test.zip", {
        "answers-forums": 375, "answers-students": 750, "belief": 375, "headlines": 750,
        "images": 750},
        all_scored=False),
    "sts2016": sts_of_year(2016, "9/98/STS2016-en-test.zip", {
        "answer-answer": 254, "headlines": 249, "plagiarism": 230, "postediting": 244,
        "question-question": 209},
        prefix="STS2016", all_scored=False),
    "sts2017": DataSet(
        use="similarity: the task of 2017, 250 scored pairs (no command reads it yet)",
        licence="each source's own", size="not known",
        folder="sts2017", kind="sts_year", limit=SMALL,
        archives=(
            Archive((Source(WIKI + "2/20/Sts2017.eval.v1.1.zip"),
                     Source(QCRI + "semeval2017/task1/data/uploads/sts2017.eval.v1.1.zip")), (
                File("STS.input.track5.en-en.txt", 250),)),
            Archive((Source(WIKI + "7/70/Sts2017.gs.zip"),
                     Source(QCRI + "semeval2017/task1/data/uploads/sts2017.gs.zip")), (
                File("STS.gs.track5.en-en.txt", 250),)))),

    "convokit-reddit-small": DataSet(
        use="conversations in 100 subreddits: prepare_reddit.py",
        licence="not stated", size="not known",
        folder="reddit-corpus-small", kind="convokit", limit=LARGE,
        extras=("speakers.json", "conversations.json", "corpus.json", "index.json"),
        archives=(Archive(
            sources=(Source("https://zissou.infosci.cornell.edu/convokit/datasets/"
                            "reddit-corpus-small/reddit-corpus-small.zip"),),
            files=(File("utterances.jsonl"),)),)),
}
