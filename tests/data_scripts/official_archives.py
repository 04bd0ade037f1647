"""Small archives in the official layouts, and a registry that describes them, to test `download`.

Every set has three pairs, and begins with FIRST. Its lone quotation mark is like official ones. The
tasks of SentEval have three rows, one of them empty where official files have empty ones.
"""

import gzip
import hashlib
import io
import json
import tarfile
import zipfile

from data_scripts.check import fingerprint
from data_scripts.registry import REGISTRY

SENTEVAL = "mr-cr-subj-mpqa", "sst", "trec", "mrpc"

FIRST = ('A "plane is taking off.', "An air plane is taking off.")
PAIRS = [FIRST, ("A man plays a flute.", "Ein Mann spielt Flöte."),
         ("Three men play chess.", "Two men play chess.")]


def sts_rows(split, columns=7):
    """The rows of an official STS Benchmark file; some of those have 9 columns."""
    return [["main-captions", "MSRvid", "2012test", f"{k:04}", "5.000", *pair,
             *["licence"] * (columns - 7 if k else 0)]
            for k, pair in enumerate(pairs_of(split))]


def pairs_of(split):
    """PAIRS, the last of which names the split."""
    return [*PAIRS[:2], (f"{split}: {PAIRS[2][0]}", PAIRS[2][1])]


def tabbed(rows):
    """Rows of columns → bytes."""
    return "".join("\t".join(row) + "\n" for row in rows).encode()


def snli_lines(split, kind=("sentence1", "sentence2")):
    """JSON lines with a pair each; one pair has no label."""
    return "".join(json.dumps({"gold_label": "-" if k else "neutral", "pairID": str(k),
                               **dict(zip(kind, pair))}) + "\n"
                   for k, pair in enumerate(pairs_of(split))).encode()


def cqa_xml(name):
    """A question with three candidates; the inline DTD heads the official files too."""
    related = "".join(
        f'<OrgQuestion ORGQ_ID="Q1">'
        f'<OrgQSubject>{FIRST[0][:9]}</OrgQSubject><OrgQBody>{FIRST[0][9:]}</OrgQBody>'
        f'<Thread THREAD_SEQUENCE="Q1_R{k}"><RelQuestion RELQ_ID="Q1_R{k}" '
        f'RELQ_RANKING_ORDER="{k}" RELQ_RELEVANCE2ORGQ="Irrelevant">'
        f'<RelQSubject>{pair[1]}</RelQSubject><RelQBody></RelQBody></RelQuestion>'
        f'</Thread></OrgQuestion>' for k, pair in enumerate(pairs_of(name), start=1))
    dtd = "<!DOCTYPE root [\n<!ELEMENT root (OrgQuestion)*>\n]>"
    return f'<?xml version="1.0"?>\n{dtd}\n<root>{related}</root>'.encode()


def zipped(members):
    """Name → bytes as a zip, with what macOS adds."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
            archive.writestr(f"__MACOSX/{name}", b"\0\5\26\7")
            folder, _, last = name.rpartition("/")
            archive.writestr(f"__MACOSX/{folder}/._{last}", b"\0\5\26\7")
    return file.getvalue()


def tarred(members, mode="w:gz"):
    """Name → bytes as a tar."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode) as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return file.getvalue()


def sbert_table():
    """The STS Benchmark as sbert.net has it: one table of all splits, in another order."""
    rows = [["split", "genre", "dataset", "year", "sid", "score", "sentence1", "sentence2"]]
    rows += [[split, *row[:7]] for split in ("train", "dev", "test") for row in sts_rows(split)]
    return gzip.compress(tabbed(rows))


def sick_table(split):
    """A header, then pairs."""
    return tabbed([
        ["pair_ID", "sentence_A", "sentence_B", "relatedness_score", "entailment_judgment"],
        *([str(k), *pair, "4.5", "NEUTRAL"] for k, pair in enumerate(pairs_of(split)))])


def senteval_rows(name):
    """A file of SentEval, with an apostrophe, a byte that is no UTF-8, or a BOM like the original.

    name: its path in SentEval's layout
    """
    label = {"trec": "NUM:dist ", "fine": "4 "}.get(name.split("/")[-2].lower(), "")
    texts = [f"{name} doesn't \x85 end", "", "a `b' c"]
    if name.startswith("MRPC/"):
        header = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String"
        lines = [header, *(f"{k % 2}\t1\t2\t{text}\t{name}" for k, text in enumerate(texts))]
        return "".join(f"{line}\r\n" for line in lines).encode()
    if label or "binary" in name:
        texts[1] = "another"
    tail = " \t1" if "binary" in name else " "
    encoding = "utf-8" if name.startswith("SST/") else "latin-1"
    return "".join(f"{label}{text}{tail}\n" for text in texts).encode(encoding)


def senteval():
    """Archive name → bytes: the archive of MR, CR, SUBJ and MPQA, and what is fetched file by file.

    Other folders of the archive hold files of the same names.
    """
    binary, *others = [REGISTRY[name].archives for name in SENTEVAL]
    folders = {"MR": "rt10662", "CR": "customerr", "SUBJ": "subj", "MPQA": "mpqa"}
    members = {}
    for file in binary[0].files:
        task, last = file.name.split("/")
        members[f"data/{folders[task]}/{last}"] = senteval_rows(file.name)
        members[f"data/{folders[task]}/more/{last}"] = b"another file of the same name"
    return {"datasmall_NB_ACL12.zip": zipped(members)} | {
        file.fetched: senteval_rows(file.name)
        for archives in others for archive in archives for file in archive.files}


def sts_year(folder, prefix, names, scores=b"5\n3.5\n0\n", extra_pairs=()):
    """Inputs and scores of an STS task; from 2015 on, most pairs are not scored."""
    members = {}
    for name in names:
        members[f"{folder}/{prefix}.input.{name}.txt"] = tabbed([*pairs_of(name), *extra_pairs])
        members[f"{folder}/{prefix}.gs.{name}.txt"] = scores
    return zipped(members)


def archives():
    """Archive name → bytes, each laid out as the official one."""
    parts = {name: [file.name.split(".", 2)[2].removesuffix(".txt")
                    for file in REGISTRY[name].archives[0].files[::2]]
             for name in REGISTRY if name.startswith("sts20")}
    splits = "train", "dev", "test"
    cqa = "SemEval2016-Task3-CQA-QL-"
    partly = {"scores": b"5\n\n3.5\n0\n", "extra_pairs": [("Not", "scored")]}
    return {
        "Stsbenchmark.tar.gz": tarred({
            "stsbenchmark/readme.txt": b"readme", "stsbenchmark/LICENSE.txt": b"licence",
            "stsbenchmark/correlation.pl": b"no text",
            **{f"stsbenchmark/sts-{split}.csv": tabbed(sts_rows(split, 9)) for split in splits},
            "stsbenchmark/companion/sts-dev.csv": b"another file of the same name"}),
        "stsbenchmark.tsv.gz": sbert_table(),
        "snli_1.0.zip": zipped({
            "snli_1.0/Icon\r": b"", "snli_1.0/README.txt": b"readme",
            **{f"snli_1.0/snli_1.0_{split}.jsonl": snli_lines(split) for split in splits},
            **{f"snli_1.0/snli_1.0_{split}.txt": b"the same as a table" for split in splits}}),
        "semeval2016-task3-cqa-ql-traindev-v3.2.zip": zipped({
            "v3.2/README.txt": b"readme",
            **{f"v3.2/train/{cqa}train-{part}{kind}.xml": cqa_xml(part)
               for part in ("part1", "part2") for kind in ("", "-subtaskA", "-with-multiline")},
            f"v3.2/dev/{cqa}dev.xml": cqa_xml("dev")}),
        "semeval2016_task3_test.zip": zipped({
            f"SemEval2016_task3_test/English/{cqa}test.xml": cqa_xml("test"),
            f"SemEval2016_task3_test/English/{cqa}test-input.xml": b"<xml/>"}),
        "semeval2017_task3_test.zip": zipped({
            "SemEval2017_task3_test/English/SemEval2017-task3-English-test.xml": cqa_xml("2017")}),
        **{f"sick_{split}.zip": zipped({f"SICK_{split}.txt": sick_table(split),
                                        "readme.txt": b"readme"})
           for split in ("train", "trial", "test_annotated")},
        **senteval(),
        "STS2012-en-test.zip": sts_year("test-gold", "STS", parts["sts2012"]),
        "STS2013-en-test.zip": sts_year("test-gs", "STS", parts["sts2013"]),
        "STS2014-en-test.zip": sts_year("sts-en-test-gs-2014", "STS", parts["sts2014"]),
        "STS2015-en-test.zip": sts_year("test_evaluation_task2a", "STS", parts["sts2015"],
                                        **partly),
        "STS2016-en-test.zip": sts_year("sts2016-english-with-gs-v1.0", "STS2016",
                                        parts["sts2016"], **partly),
        **dict.fromkeys(("Sts2017.eval.v1.1.zip", "sts2017.eval.v1.1.zip"),
                        zipped({"STS2017.eval.v1.1/STS.input.track5.en-en.txt": tabbed(PAIRS)})),
        **dict.fromkeys(("Sts2017.gs.zip", "sts2017.gs.zip"),
                        zipped({"STS2017.gs/STS.gs.track5.en-en.txt": b"5\n3.5\n0\n"})),
        "reddit-corpus-small.zip": zipped({
            "reddit-corpus-small/utterances.jsonl": snli_lines("utterances", ("speaker", "text")),
            **{f"reddit-corpus-small/{name}": b"{}"
               for name in REGISTRY["convokit-reddit-small"].extras}}),
    }


def registry(address, contents):
    """The registry with all sources at `address`, in folders named by host, and these hashes."""
    def local(source):
        host, name = source.url.split("/")[2], source.url.rsplit("/", 1)[1]
        known = source.sha256 and hashlib.sha256(contents[name]).hexdigest()
        if known and source.sha256.endswith("…"):
            known = known[:8] + "…"
        return source._replace(url=f"{address}/{host}/{name}", sha256=known)

    def small(name, file):
        first = fingerprint(FIRST)
        if name in SENTEVAL:
            encoding = "utf-8" if name == "mrpc" else "latin-1"
            lines = senteval_rows(file.name).decode(encoding).split("\n")[:2]
            first = fingerprint(lines[1].split("\t")[3:] if name == "mrpc" else lines)
        return file._replace(rows=file.rows and 3, first=file.first and first)

    return {name: dataset._replace(archives=tuple(
        archive._replace(sources=tuple(map(local, archive.sources)),
                         files=tuple(small(name, file) for file in archive.files))
        for archive in dataset.archives)) for name, dataset in REGISTRY.items()}
