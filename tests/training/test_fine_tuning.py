"""Continuing a run with other pairs: it keeps its words, and changes are shown."""

import csv
import json
import re
from dataclasses import replace

import numpy as np
import pytest

from convsim_mini import train
from convsim_mini.common.arrays_file import load_arrays, save_arrays
from convsim_mini.config import Config
from convsim_mini.data.prepare import open_corpus
from convsim_mini.training.run import describe, load_run

from conftest import command, generate_pairs, parse_config


def write_csv(path, pairs):
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("question", "answer"), *pairs])
    return path


@pytest.fixture(scope="module")
def own_file(tmp_path_factory):
    """A CSV of 500 pairs that the run has not seen; some of their words are new."""
    return write_csv(tmp_path_factory.mktemp("own") / "own.csv", (
        (f"{a} zucchini{k % 7}", b) for k, (a, b) in enumerate(generate_pairs(500, seed=8))))


@pytest.fixture(scope="module")
def tuned(trained, own_file, cache_folder, tmp_path_factory):
    """The run of `trained` after 20 steps on those pairs: folder, Finished."""
    folder = tmp_path_factory.mktemp("tuned") / "run"
    done = command("train", "--init", trained[0], "--pairs", own_file, "--cache", cache_folder,
                   "--steps", 20, "--evaluations", 1, "--run", folder, cwd=folder.parent)
    assert done.returncode == 0, done.stderr
    return folder, done


def test_the_run_keeps_its_words_and_shows_what_it_was_before(trained, tuned, own_file):
    assert 'a pair in each row (input = "question", response = "answer")' in tuned[1].stderr
    assert len(re.findall("^  .+ → .+$", tuned[1].stdout, re.MULTILINE)) == 3
    rows = re.findall("^before fine-tuning: run  ", tuned[1].stdout, re.MULTILINE)
    assert len(rows) == 2                                     # P@N and similarity
    vocabulary = describe(trained[0]).vocabulary
    run = load_run(tuned[0])
    assert run.vocabulary == vocabulary
    corpus = open_corpus(run.config, run.vocabulary)
    assert corpus.checksum == run.corpus_checksum and corpus.vocabulary == vocabulary
    assert min(split.pairs for split in (corpus.train, corpus.dev, corpus.test)) >= 100
    assert int(corpus.train.ids.max()) < vocabulary.size


def test_the_run_starts_from_the_parents_weights(trained, tuned):
    before, after = (load_run(folder).model.params for folder in (trained[0], tuned[0]))
    name = "encoder.linear0.weight"
    assert 0 < np.abs(before[name] - after[name]).max() < 0.1      # did not start over


def test_other_pairs_are_learned_in_8_epochs_at_a_third_of_the_presets_rates(
        trained, tuned, pair_file, tmp_path):
    other = ["--pairs", "x.csv"]
    same = parse_config(["--init", str(trained[0]), "--pairs", str(pair_file)])
    before = describe(trained[0]).config.optim.learning_rate
    assert (same.steps, same.optim.learning_rate) == (Config().steps, before)
    for parent in (trained[0], tuned[0]):                     # however often it was continued
        after = parse_config(["--init", str(parent), *other])
        assert (after.steps, after.epochs, after.task) == (None, 8, "conversation")
        for name in ("learning_rate", "table_learning_rate"):
            assert getattr(after.optim, name) == getattr(Config().optim, name) / 3
    chosen = parse_config(["--init", str(tuned[0]), *other, "--steps", "7",
                           "--optim.learning_rate", "0.5"])
    assert (chosen.steps, chosen.optim.learning_rate) == (7, 0.5)
    (tmp_path / "i.json").write_text(json.dumps({"init": str(tuned[0])}))
    assert parse_config(["--config", str(tmp_path / "i.json"), *other]) == after
    (tmp_path / "c.json").write_text('{"preset": "similarity", "nli": "DIR"}')
    asked = parse_config(["--init", str(tuned[0]), *other, "--config", str(tmp_path / "c.json")])
    assert (asked.task, asked.steps) == ("entailment", Config().steps)


def test_a_named_preset_overrides_what_the_run_had(trained):
    run = describe(trained[0]).config
    second = parse_config(["--init", str(trained[0]), "--preset", "paper-multitask",
                           "--nli", "DIR"])
    assert (second.optim.optimizer, second.optim.batch_size) == ("sgd", 128)
    assert run.optim.batch_size != 128 and second.model == run.model


def test_a_frequent_reply_is_no_wrong_answer_that_few_pairs_could_be_measured_with(tuned, tmp_path):
    path = write_csv(tmp_path / "own.csv", (
        (a, b if k % 4 else "you are welcome")
        for k, (a, b) in enumerate(generate_pairs(1_000, seed=9))))
    config = replace(describe(tuned[0]).config, pairs=[str(path)], cache=str(tmp_path / "cache"))
    corpus = open_corpus(config, load_run(tuned[0]).vocabulary)
    for split in (corpus.dev, corpus.test):
        replies = split.keys[:, 1]
        assert len(replies) - np.unique(replies, return_counts=True)[1].max() >= 100
    assert corpus.train.pairs > 500


def test_pairs_in_a_script_that_the_run_does_not_know_are_told(trained, tmp_path, capsys):
    path = tmp_path / "mine.tsv"
    text = "нет слов"
    path.write_text("".join(f"{text} {text} {k}\t{text} {text} a{k}\n" for k in range(900)))
    config = parse_config(["--init", str(trained[0]), "--pairs", str(path),
                           "--cache", str(tmp_path / "cache"), "--text.filters_off", "long"])
    train.prepare(config, describe(trained[0]).vocabulary)
    share = re.search("words of train with letters .* ([0-9.]+)%", capsys.readouterr().out)[1]
    assert float(share) > 90


def test_columns_and_encoding_are_inherited_with_the_pairs_alone(run_copy):
    arrays, about = load_arrays(run_copy / "model.safetensors")
    about["settings"] |= {"columns": ["a", "b"], "encoding": "cp1252"}
    save_arrays(run_copy / "model.safetensors", arrays, about)
    for more, kept in (([], (["a", "b"], "cp1252")), (["--pairs", "x.csv"], ([], "utf-8"))):
        config = parse_config(["--init", str(run_copy), *more])
        assert (config.columns, config.encoding) == kept
