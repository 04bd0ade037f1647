"""The data sets that `download` knows: where they are, what they hold, how to check them.

None means not known, and then not checked. The figures come from these sources:
- rows: the readme of the STS Benchmark; SNLI's page (its count includes unlabelled pairs); the
  readmes of SemEval Task 3; the counts that the readers in `convsim_mini.evaluation` ask for;
- first: `check.fingerprint` of the first pair, computed from the official files or copies of them;
  for the train sets of SNLI and SICK, from the pair as many publications quote it;
- sha256: for TREC and MRPC, as the data set library of Hugging Face publishes them; for SST's two
  classes, from a copy that is as long as the source.
"""

from typing import NamedTuple

from convsim_mini.evaluation.senteval import FILES
from convsim_mini.evaluation.sts import COUNTS

WIKI = "https://ixa2.si.ehu.eus/stswiki/images/"
SEMEVAL = "https://alt.qcri.org/"
FAIR = "https://dl.fbaipublicfiles.com/senteval/senteval_data/"
COGCOMP = "https://cogcomp.seas.upenn.edu/Data/QA/QC/"
SST2 = "https://raw.githubusercontent.com/PrincetonML/SIF/master/data/"
SST5 = "https://raw.githubusercontent.com/AcademiaSinicaNLPLab/sentiment_dataset/master/data/"
SENTEVAL = "senteval/downstream"                              # the layout of SentEval's own script
SMALL, LARGE = 50_000_000, 4_000_000_000                      # bytes


class Source(NamedTuple):
    """A place to fetch an archive from.

    sha256: 64 digits; if only the first ones are known, those digits and "…".
    """

    url: str
    sha256: str | None = None


class File(NamedTuple):
    """A file that a set needs.

    name: its path below the set's folder; rows: its pairs, sentences or scores; first: the first
    pair's fingerprint; inside: its name in the archive, if that is not the end of its path.
    """

    name: str
    rows: int | None = None
    first: str | None = None
    inside: str | None = None

    @property
    def fetched(self):
        """Its name in the archive, without folders."""
        return self.inside or self.name.rpartition("/")[2]


class Archive(NamedTuple):
    """Sources in order of preference, and the files that each of them holds, in any folder.

    A source may itself be the only file. without: characters that are removed from the files.
    """

    sources: list
    files: list
    without: bytes = b""


class Entry(NamedTuple):
    """What --list shows of a data set, and the files that end up in its folder below --data.

    kind: the reader in check.py; limit: the most bytes that an archive may expand to; extras: files
    that are kept too, if the archive holds them.
    """

    use: str
    licence: str
    folder: str
    kind: str
    limit: int
    archives: list
    extras: tuple = ()


def mirrored(url, sha256=None):
    """An official source that is often down, then the Internet Archive's copy, if there is one."""
    archived = f"https://web.archive.org/web/20220101000000id_/{url}"
    return [Source(url, sha256), Source(archived, sha256)]


def sts_of_year(year, path, prefix="STS", all_scored=True):
    """The English test data of an STS task.

    prefix: of the names in the archive; all_scored: False from 2015 on, when the input holds many
    more pairs, an unknown number.
    """
    name = f"STS{year - 2000}-en-test"
    files = [File(f"STS.{kind}.{of_set}.txt", count, inside=f"{prefix}.{kind}.{of_set}.txt")
             for of_set, rows in COUNTS[name].items()
             for kind, count in (("input", rows if all_scored else None), ("gs", rows))]
    return Entry(
        use=f"similarity: the task of {year}, {sum(COUNTS[name].values()):,} scored pairs: "
            "evaluation --on sts",
        licence="each source's own", folder=f"{SENTEVAL}/STS/{name}", kind="sts_year", limit=SMALL,
        archives=[Archive(mirrored(WIKI + path), files)])


def of_senteval(use, *archives, kind="lines"):
    """Tasks of SentEval; how many rows each file has, their reader knows."""
    rows = {name: count for files in FILES.values() for name, count in files.counts.items()}
    return Entry(
        use=f"{use}: evaluation --on senteval", licence="free for research",
        folder=SENTEVAL, kind=kind, limit=SMALL,
        archives=[archive._replace(files=[file._replace(rows=rows[file.name])
                                          for file in archive.files]) for archive in archives])


def plain(url, name, first, sha256=None):
    """A file that is fetched without an archive."""
    return Archive([Source(url, sha256)], [File(name, first=first, inside=url.rpartition("/")[2])])


REGISTRY = {
    "stsbenchmark": Entry(
        use="similarity: evaluation --on sts, tune",
        licence="scores CC BY-SA 4.0, texts mixed",
        folder="stsbenchmark", kind="sts", limit=SMALL, extras=("readme.txt", "LICENSE.txt"),
        archives=[Archive(mirrored(WIKI + "4/48/Stsbenchmark.tar.gz", sha256="557a86ab…"), [
            File("sts-train.csv", rows=5_749, first="ac54c1da33c31dac"),
            File("sts-dev.csv", rows=1_500, first="510a828b4973355d"),
            File("sts-test.csv", rows=1_379)])]),

    "snli": Entry(
        use="entailment: the paper's second task (95 MB)",
        licence="CC BY-SA 4.0", folder="snli_1.0", kind="snli", limit=LARGE, extras=("README.txt",),
        archives=[Archive([Source(
            "https://nlp.stanford.edu/projects/snli/snli_1.0.zip",
            sha256="afb3d70a5af5d8de0d9d81e2637e0fb8c22d1235c2749d83125ca43dab0dbd3e")], [
            File("snli_1.0_train.jsonl", rows=550_152, first="44a44c588fb87678"),
            File("snli_1.0_dev.jsonl", rows=10_000, first="a9833ac17ba540a4"),
            File("snli_1.0_test.jsonl", rows=10_000, first="7bbdb0ae6dfcd8fc")])]),

    "cqa": Entry(
        use="question ranking, SemEval Task 3 of 2016 and 2017: evaluation --on cqa",
        licence="free for research", folder="cqa", kind="cqa", limit=LARGE,
        archives=[
            Archive(mirrored(SEMEVAL + "semeval2016/task3/data/uploads/"
                             "semeval2016-task3-cqa-ql-traindev-v3.2.zip"), [
                File("SemEval2016-Task3-CQA-QL-train-part1.xml", rows=1_999,
                     first="c32395f0eabba696"),
                File("SemEval2016-Task3-CQA-QL-train-part2.xml", rows=670,
                     first="c04c25be19a27a7e"),
                File("SemEval2016-Task3-CQA-QL-dev.xml", rows=500, first="19e64187aaac0f11")]),
            Archive(mirrored(SEMEVAL + "semeval2016/task3/data/uploads/semeval2016_task3_test.zip"),
                    [File("SemEval2016-Task3-CQA-QL-test.xml", rows=700,
                          first="05113aa71e982c30")]),
            Archive(mirrored(SEMEVAL + "semeval2017/task3/data/uploads/semeval2017_task3_test.zip"),
                    [File("SemEval2017-task3-English-test.xml", rows=880)])]),

    "mr-cr-subj-mpqa": of_senteval(
        "reviews, subjective sentences, opinions",
        Archive([Source(FAIR + "datasmall_NB_ACL12.zip"),
                 Source("https://www.stanford.edu/~sidaw/projects/datasmall_NB_ACL12.zip")], [
            File("MR/rt-polarity.neg", first="e1509cdedbbd4aef"),
            File("MR/rt-polarity.pos", first="bf6f39aa6fd9b19e"),
            File("CR/custrev.neg", first="6ae1d3c35abcd7b4"),
            File("CR/custrev.pos", first="1f42e07ef45788fc"),
            File("SUBJ/subj.objective", first="2dd625c80bb823d8"),
            File("SUBJ/subj.subjective", first="f0ca907ad4e65d8c"),
            File("MPQA/mpqa.neg", first="02a5cb67e11830b0"),
            File("MPQA/mpqa.pos", first="2dbb50c684c628ca")])),
    "sst": of_senteval(
        "sentiment of film reviews",
        plain(SST2 + "sentiment-train", "SST/binary/sentiment-train", first="28c415e96540be9b",
              sha256="10a92a297ec38e262386e5a2713b4bc70e5d18ced88b7f54bd171a26e5b34ab5"),
        plain(SST2 + "sentiment-dev", "SST/binary/sentiment-dev", first="8d339b3c9e64cf12",
              sha256="9a6c7403b71a9b762158387afe4431253ae10cdfb2319b5275289f3766f48291"),
        plain(SST2 + "sentiment-test", "SST/binary/sentiment-test", first="8f81a3ed6473d6ca",
              sha256="4fefd1cd67526cf87ebc7fafc3afc21cc7cfa6ae53b45e74f77f9456e3c62752"),
        plain(SST5 + "stsa.fine.train", "SST/fine/sentiment-train", first="bfe348b147b876b4"),
        plain(SST5 + "stsa.fine.dev", "SST/fine/sentiment-dev", first="5122fd20775169ee"),
        plain(SST5 + "stsa.fine.test", "SST/fine/sentiment-test", first="5f98222ad0b33dae")),
    "trec": of_senteval(                                      # quotes: as SentEval's script does
        "kinds of questions",
        Archive(mirrored(
            COGCOMP + "train_5500.label",
            sha256="9e4c8bdcaffb96ed61041bd64b564183d52793a8e91d84fc3a8646885f466ec3"),
            [File("TREC/train_5500.label", first="62c65308e5237487")], without=b"`'"),
        Archive(mirrored(
            COGCOMP + "TREC_10.label",
            sha256="033f22c028c2bbba9ca682f68ffe204dc1aa6e1cf35dd6207f2d4ca67f0d0e8e"),
            [File("TREC/TREC_10.label", first="7ae3d8b3ce55c312")], without=b"`'")),
    "mrpc": of_senteval(
        "paraphrases in the news",
        plain(FAIR + "msr_paraphrase_train.txt", "MRPC/msr_paraphrase_train.txt",
              first="cc2c6d142ff59dd2",
              sha256="60a9b09084528f0673eedee2b69cb941920f0b8cd0eeccefc464a98768457f89"),
        plain(FAIR + "msr_paraphrase_test.txt", "MRPC/msr_paraphrase_test.txt",
              first="e219acd7f14f7e91",
              sha256="a04e271090879aaba6423d65b94950c089298587d9c084bf9cd7439bd785f784"),
        kind="mrpc"),

    "sick": Entry(
        use="entailment: evaluation --on senteval",
        licence="CC BY-NC-SA 3.0", folder=f"{SENTEVAL}/SICK", kind="sick", limit=SMALL,
        archives=[
            Archive(mirrored(SEMEVAL + f"semeval2014/task1/data/uploads/{name}.zip"), [file])
            for name, file in (
                ("sick_train", File("SICK_train.txt", rows=4_500, first="15641a2a6290248a")),
                ("sick_trial", File("SICK_trial.txt", rows=500, first="46e39c9ff512ce46")),
                ("sick_test_annotated", File("SICK_test_annotated.txt", rows=4_927)))]),

    "sts2012": sts_of_year(2012, "4/40/STS2012-en-test.zip"),
    "sts2013": sts_of_year(2013, "2/2f/STS2013-en-test.zip"),
    "sts2014": sts_of_year(2014, "8/8c/STS2014-en-test.zip"),
    "sts2015": sts_of_year(2015, "d/da/STS2015-en-test.zip", all_scored=False),
    "sts2016": sts_of_year(2016, "9/98/STS2016-en-test.zip", "STS2016", all_scored=False),
    "convokit-reddit-small": Entry(
        use="conversations in 100 subreddits: prepare_reddit",
        licence="not stated", folder="reddit-corpus-small", kind="convokit", limit=LARGE,
        extras=("speakers.json", "conversations.json", "corpus.json", "index.json"),
        archives=[Archive([Source("https://zissou.infosci.cornell.edu/convokit/datasets/"
                                  "reddit-corpus-small/reddit-corpus-small.zip")],
                          [File("utterances.jsonl")])]),
}

GROUPS = {
    "senteval": ("mr-cr-subj-mpqa", "sst", "trec", "mrpc", "sick", "snli", "stsbenchmark",
                 *(f"sts{year}" for year in range(2012, 2017))),
}
