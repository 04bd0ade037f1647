"""An index of lines: what it finds is what an exact search of the file finds."""

import csv
import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import convsim_mini
from convsim_mini import encode
from convsim_mini.inference import index, rows
from convsim_mini.common.cli import UserError
from convsim_mini.common.files import checksum
from convsim_mini.inference.index import Index, build_index
from convsim_mini.inference.rows import rows_of_file, rows_of_texts

from conftest import command
from rounding import rounding

QUERIES = ["fudazi vobamu", "you?", ""]


def search(encoder, queries, file):
    """What a search of a file finds: ten lines for each query."""
    options = SimpleNamespace(index=None, search=file, columns=(), side=0, top=10)
    return encode.search(encoder, queries, options)[1]


@pytest.fixture(scope="module")
def encoder(trained):
    return convsim_mini.load(trained[0])


@pytest.fixture(scope="module")
def lines(pairs):
    """Lines of all kinds, some of them twice, in random order."""
    some = [text for pair in pairs[:700] for text in pair]
    odd = ["", "caf\u00e9 \U0001f600", "a\rb\u2028c", "fudazi vobamu", "fudazi vobamu"]
    return np.random.default_rng(1).permutation([*some, *odd]).tolist()


@pytest.fixture
def file(tmp_path, lines, monkeypatch):
    """The lines as a file, which is read and searched in several blocks."""
    monkeypatch.setattr(rows, "CHUNK", 400)
    monkeypatch.setattr(index, "BLOCK", 400)
    path = tmp_path / "lines.txt"
    path.write_bytes("\n".join(lines).encode())
    return path


def test_the_command_finds_what_a_search_of_the_file_finds(trained, file, tmp_path, capsys):
    folder = tmp_path / "index"
    encode.main([str(trained[0]), "--file", str(file), "--index", str(folder)])
    assert capsys.readouterr().out == f"{folder}: 1,405 rows; each search is exact\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index", "lines.txt"]
    encode.main([str(trained[0]), "--search", str(file), *QUERIES])
    expected = capsys.readouterr().out
    assert expected.count("\n  ") == 30
    file.unlink()                                             # from here on the index has all
    for words in (["--search", QUERIES[0], *QUERIES[1:]], QUERIES):
        encode.main([str(trained[0]), *words, "--index", str(folder)])
        assert capsys.readouterr().out == expected


def test_from_a_table_of_ones_own_to_the_answer_of_a_search(
        pairs, arguments, cache_folder, tmp_path):
    with open(tmp_path / "mine.csv", "w", encoding="utf-8", newline="") as table:
        csv.writer(table).writerows([("question", "answer"), *pairs])
    lines = [reply for _, reply in pairs[:300]]
    (tmp_path / "lines.txt").write_text("\n".join(lines), encoding="utf-8")
    small = arguments[arguments.index("--cache"):]
    for name, *options in (("train", "--pairs", "mine.csv", *small, "--steps", 10, "--run", "run"),
                           ("encode", "run", "--file", "lines.txt", "--index", "index"),
                           ("encode", "run", "--search", lines[200], "--index", "index")):
        done = command(name, *options, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    first = lines.index(lines[200])
    assert done.stdout.startswith(f"{lines[200]}\n  1.000  line {first + 1}: {lines[first]}\n")


def test_a_search_is_exact_and_the_first_of_equal_lines_comes_first(encoder, lines, file, tmp_path):
    build_index(encoder, rows_of_file(file), tmp_path / "index")
    found = Index(tmp_path / "index", encoder).search(QUERIES, 1_405)
    cosines = encoder.encode(QUERIES) @ encoder.encode(lines).T
    # a cosine adds up errors of two unit vectors' numbers, with random signs
    error = 2 * np.sqrt(encoder.dimension) * rounding(encoder, lines)
    assert error < 1e-4
    for hits, row in zip(found, cosines):
        assert sorted(number for _, number, _ in hits) == list(range(1, 1_406))
        assert all(lines[hit.number - 1] == hit.row["line"] for hit in hits)
        np.testing.assert_allclose([cosine for cosine, _, _ in hits], np.sort(row)[::-1], rtol=0,
                                   atol=error)
    first, second = found[0][:2]
    assert first.row == second.row == {"line": "fudazi vobamu"} and first.number < second.number


def test_a_graph_finds_nearly_all_of_them_and_without_its_package_all(
        encoder, file, tmp_path, monkeypatch):
    pytest.importorskip("usearch")
    monkeypatch.setattr(index, "GRAPH_ABOVE", 1_000)
    report = build_index(encoder, rows_of_file(file), tmp_path / "index")
    assert "may miss some" in report
    queries = next(rows_of_file(file).texts)[:100]
    near = Index(tmp_path / "index", encoder).search(queries)
    monkeypatch.setitem(sys.modules, "usearch.index", None)   # as if it were not installed
    exact = Index(tmp_path / "index", encoder).search(queries)
    assert exact == search(encoder, queries, file)
    numbers = [[{number for _, number, _ in hits} for hits in found] for found in (near, exact)]
    assert sum(len(a & b) for a, b in zip(*numbers)) > 950


def test_of_many_equal_lines_the_first_are_found_in_order(encoder, tmp_path):
    """Equal lines get cosines that differ in their last bits, in whatever block they stand."""
    rng, often = np.random.default_rng(2), ["tufome", "fudazi vobamu", "setodi, fudazi."]
    lines = [often[k] if k < 3 else f"other {number}"
             for number, k in enumerate(rng.integers(0, 12, 12_000))]
    (tmp_path / "lines.txt").write_text("\n".join(lines))
    expected = [[k for k, line in enumerate(lines, start=1) if line == text][:10] for text in often]
    build_index(encoder, rows_of_file(tmp_path / "lines.txt"), tmp_path / "index")
    of_file = search(encoder, often, tmp_path / "lines.txt")
    for found in (of_file, Index(tmp_path / "index", encoder).search(often)):
        assert [[number for _, number, _ in hits] for hits in found] == expected


@pytest.mark.parametrize("block", [1, 3, 50])
def test_a_tie_is_what_follows_within_the_last_bits(block):
    """The rule, however the lines are cut into blocks, on cosines that are not rounded."""
    rng = np.random.default_rng(3)
    cosines = rng.choice([0.9, 0.7, 0.5], 50) + rng.choice([0, 5e-6, 9e-6], 50)
    cosines[::7] += 1e-4                                      # too far to be the same tie
    ranks = np.round(cosines, 4)
    expected = sorted(range(50), key=lambda k: (-ranks[k], k))
    blocks = [(cosines[k:k + block, None], range(k, min(k + block, 50)))
              for k in range(0, 50, block)]
    for top in (1, 4, 50):
        hits, = index.nearest(np.ones((1, 1)), blocks, top)
        assert [line for _, _, line in hits] == expected[:top]
        assert [(cosines[line], line + 1) for *_, line in hits] == [hit[:2] for hit in hits]


def test_an_index_of_other_weights_or_another_matrix_is_refused(encoder, tmp_path, monkeypatch):
    build_index(encoder, rows_of_texts(["one", "two"]), tmp_path / "index")
    assert len(Index(tmp_path / "index", encoder)) == 2
    for name, value in (("weights", 1), ("vocabulary", 1), ("matrix", 1), ("tuned", True),
                        ("word_weight", 0.0)):
        monkeypatch.setitem(encoder.identity, name, value)
        with pytest.raises(UserError, match=name):
            Index(tmp_path / "index", encoder)
        monkeypatch.undo()


def test_an_index_made_with_words_is_refused_without_them(encoder, trained, tmp_path):
    learned = convsim_mini.load(trained[0], words=False)
    for maker, other, name in ((encoder, learned, "both"), (learned, encoder, "learned")):
        build_index(maker, rows_of_texts(["one", "two"]), tmp_path / name)
        assert len(Index(tmp_path / name, maker).search(["one"])[0]) == 2
        with pytest.raises(UserError, match="with other options .different: word_weight."):
            Index(tmp_path / name, other)


def test_equal_lines_are_a_tie_in_blocks_of_all_sizes(trained):
    """Cosines of 528 numbers vary by more than 1e-6 with the product's size; one word most."""
    encoder = convsim_mini.load(trained[0])
    sizes = [4_096, 1, 2, 3, 5, 8, 100]
    for text in ("fudazi", "a", "you?", "fudazi vobamu setodi"):
        query = encoder.encode([text])
        blocks = [(encoder.encode([text] * size), [0] * size) for size in sizes]
        hits, = index.nearest(np.repeat(query, 3, axis=0), blocks, 5_000)[:1]
        assert [number for _, number, _ in hits] == [*range(1, sum(sizes) + 1)]


@pytest.mark.parametrize("accident", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_an_interrupted_index_leaves_nothing(encoder, tmp_path, accident):
    def chunks():
        yield [{"line": "one"}]
        raise accident

    with pytest.raises(KeyboardInterrupt if accident is KeyboardInterrupt else UserError):
        build_index(encoder, rows.Rows(("line", "line"), 0, chunks()), tmp_path / "index")
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_an_index_that_is_cut_is_refused(encoder, tmp_path):
    build_index(encoder, rows_of_texts(["one", "two"]), tmp_path / "index")
    names = json.loads((tmp_path / "index" / "meta.json").read_text())["crc32"]
    assert set(names) == {"vectors-1.npy", "rows-1.jsonl", "offsets-1.npy"}
    for name in names:
        path = tmp_path / "index" / name
        whole = path.read_bytes()
        path.write_bytes(whole[:-1])
        message = f"index: is damaged .{name} is missing or not as it was written"
        with pytest.raises(UserError, match=message):
            Index(tmp_path / "index", encoder)
        path.write_bytes(whole)
    assert len(Index(tmp_path / "index", encoder).search(["one"])[0]) == 2


def test_a_file_of_an_index_that_is_changed_is_refused(encoder, tmp_path):
    build_index(encoder, rows_of_texts(["one", "two"]), tmp_path / "index")
    meta = json.loads((tmp_path / "index" / "meta.json").read_text())
    for name in meta["crc32"]:
        path = tmp_path / "index" / name
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        message = f"index: is damaged .{name} is missing or not as it was written"
        with pytest.raises(UserError, match=message):
            Index(tmp_path / "index", encoder)
        path.write_bytes(whole)
    for change in ({"generation": name} for name in ("1/../../outside/x", 0, True, "1")):
        (tmp_path / "index" / "meta.json").write_text(json.dumps(meta | change))
        with pytest.raises(UserError, match="index: is damaged .meta.json names no generation"):
            Index(tmp_path / "index", encoder)
    for name, message in (("crc32", "names other files"), ("format", "another version")):
        changed = {key: value for key, value in meta.items() if key != name}
        (tmp_path / "index" / "meta.json").write_text(json.dumps(changed))
        with pytest.raises(UserError, match=message):
            Index(tmp_path / "index", encoder)


def test_files_of_an_index_that_do_not_fit_each_other_are_refused(encoder, tmp_path):
    """Their checksums are right, as an index has that was put together by hand."""
    folder = tmp_path / "index"
    build_index(encoder, rows_of_texts(["one", "two"]), folder)
    opened = Index(folder, encoder)
    opened.graph = SimpleNamespace(search=lambda *_: SimpleNamespace(keys=np.array([2, 0])))
    with pytest.raises(UserError, match="index: is damaged .index 2 is out of bounds.*; delete it"):
        opened.search(["one"])
    meta = json.loads((folder / "meta.json").read_text())
    for offsets in ([0, 15, 31], [0, 15], []):
        np.save(folder / "offsets-1.npy", np.array(offsets, np.int64))
        meta["crc32"]["offsets-1.npy"] = checksum(folder / "offsets-1.npy")
        (folder / "meta.json").write_text(json.dumps(meta))
        with pytest.raises(UserError, match="is damaged .offsets-1.npy does not fit the rows"):
            Index(folder, encoder)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such permissions")
def test_files_of_an_index_keep_their_permissions_when_rows_are_added(
        encoder, tmp_path, monkeypatch):
    pytest.importorskip("usearch")
    build_index(encoder, rows_of_texts(["one", "two"]), tmp_path / "index")
    modes = {"vectors": 0o640, "rows": 0o600, "offsets": 0o604, "meta.json": 0o606}
    for path in (tmp_path / "index").iterdir():
        path.chmod(modes[path.name.partition("-")[0]])
    monkeypatch.setattr(index, "GRAPH_ABOVE", 2)
    Index(tmp_path / "index", encoder).add(rows_of_texts(["three"]))
    assert modes | {"graph": 0o606} == {path.name.partition("-")[0]: path.stat().st_mode & 0o777
                                        for path in (tmp_path / "index").iterdir()}
