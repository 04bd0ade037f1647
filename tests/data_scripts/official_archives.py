"""Small archives of one set of each kind, and a registry of them, to test `download`.

Every set has three pairs, and begins with FIRST. Its lone quotation mark is like official ones.
"""

import hashlib
import io
import json
import tarfile
import zipfile

from data_scripts.check import fingerprint
from data_scripts.registry import REGISTRY

SETS = "stsbenchmark", "snli", "cqa", "trec", "sts2012", "sts2015", "sts2016"

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


def trec_rows(name):
    """A file of TREC, with an apostrophe and a byte that is not UTF-8."""
    texts = f"{name} doesn't \x85 end", "another", "a `b' c"
    return "".join(f"NUM:dist {text} \n" for text in texts).encode("latin-1")


def content(dataset, file):
    """The bytes of a File, as its kind has them."""
    all_scored = not any(one.rows is None for one in dataset.archives[0].files)
    return {"sts": lambda: tabbed(sts_rows(file.name[4:-4], 9)),
            "snli": lambda: json_lines(file.name, "sentence1", "sentence2"),
            "cqa": lambda: cqa_xml(file.name), "lines": lambda: trec_rows(file.name),
            "sts_year": lambda: sts_year(file, all_scored)}[dataset.kind]()


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


def archives():
    """Archive name → bytes. Each holds more than is wanted, and deeper files of the same names."""
    made = {}
    for name in SETS:
        dataset = REGISTRY[name]
        for archive in dataset.archives:
            members = {f"set/{extra}": b"licence" for extra in dataset.extras}
            for file in archive.files:
                members[f"set/{file.fetched}"] = content(dataset, file)
                members[f"set/more/{file.fetched}"] = b"another file of the same name"
            for name in (source.url.rpartition("/")[2] for source in archive.sources):
                pack = zipped if name.endswith(".zip") else tarred
                one = members.get(f"set/{name}")              # which is fetched without an archive
                made[name] = pack(members | {"set/Icon\r": b""}) if one is None else one
    return made


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
        if name == "trec":
            first = fingerprint(trec_rows(file.name).decode("latin-1").split("\n")[:2])
        return file._replace(rows=file.rows and 3, first=file.first and first)

    return {name: dataset._replace(archives=tuple(
        archive._replace(sources=tuple(map(local, archive.sources)),
                         files=tuple(small(name, file) for file in archive.files))
        for archive in dataset.archives)) for name, dataset in REGISTRY.items() if name in SETS}
