"""Small archives of all sets, and a registry that describes them, to test `download`.

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


def pairs_of(name):
    """PAIRS, the last of which names the split or file."""
    return [*PAIRS[:2], (f"{name}: {PAIRS[2][0]}", PAIRS[2][1])]


def tabbed(rows):
    """Rows of columns → bytes."""
    return "".join("\t".join(row) + "\n" for row in rows).encode()


def sts_rows(split, columns=7):
    """The rows of an official STS Benchmark file; some of those have 9 columns."""
    return [["main-captions", "MSRvid", "2012test", f"{k:04}", "5.000", *pair,
             *["licence"] * (columns - 7 if k else 0)]
            for k, pair in enumerate(pairs_of(split))]


def json_lines(name, *fields):
    """JSON lines with a pair each, in these fields; one pair has no label."""
    return "".join(json.dumps({"gold_label": "-" if k else "neutral", **dict(zip(fields, pair))})
                   + "\n" for k, pair in enumerate(pairs_of(name))).encode()


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


def sts_year(file, all_scored):
    """Inputs or scores of an STS task; from 2015 on, some pairs are not scored."""
    if ".gs." in file.name:
        return b"5\n3.5\n0\n" if all_scored else b"5\n\n3.5\n0\n"
    return tabbed([*pairs_of(file.name), *[("Not", "scored")] * (not all_scored)])


def sick_table(name):
    """A header, then pairs."""
    return tabbed([
        ["pair_ID", "sentence_A", "sentence_B", "relatedness_score", "entailment_judgment"],
        *([str(k), *pair, "4.5", "NEUTRAL"] for k, pair in enumerate(pairs_of(name)))])


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


def content(dataset, file):
    """The bytes of a File, as its kind has them."""
    all_scored = not any(one.rows is None for one in dataset.archives[0].files)
    return {"sts": lambda: tabbed(sts_rows(file.name[4:-4], 9)),
            "snli": lambda: json_lines(file.name, "sentence1", "sentence2"),
            "convokit": lambda: json_lines(file.name, "speaker", "text"),
            "cqa": lambda: cqa_xml(file.name), "sick": lambda: sick_table(file.name),
            "sts_year": lambda: sts_year(file, all_scored)}.get(
        dataset.kind, lambda: senteval_rows(file.name))()


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


def archives():
    """Archive name → bytes. Each holds more than is wanted, and deeper files of the same names."""
    made = {}
    for dataset in REGISTRY.values():
        for archive in dataset.archives:
            members = {f"set/{extra}": b"licence" for extra in dataset.extras}
            for file in archive.files:
                members[f"set/{file.fetched}"] = content(dataset, file)
                members[f"set/more/{file.fetched}"] = b"another file of the same name"
            for name in (source.url.rpartition("/")[2] for source in archive.sources):
                pack = zipped if name.endswith(".zip") else tarred
                one = members.get(f"set/{name}")              # which is fetched without an archive
                made[name] = pack(members | {"set/Icon\r": b""}) if one is None else one
    return made | {"stsbenchmark.tsv.gz": sbert_table()}


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
