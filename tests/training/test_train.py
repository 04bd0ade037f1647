"""Training as a user runs it: a whole run, repeating it, its output, its settings."""

import json
import os
import re
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from convsim_mini import train
from convsim_mini.common.cli import UserError
from convsim_mini.config import settings
from convsim_mini.evaluation.after_training import summary
from convsim_mini.core.model import embed, response_forward
from convsim_mini.core.loop import rates
from convsim_mini.training.measures import drawn
from convsim_mini.training.start import initial_model
from convsim_mini.training.run import describe, load_run, newest
from convsim_mini.training.tasks import Tasks, fitted

from conftest import SMALL, command, generate_pairs, parse_config, weights


def records_of(folder):
    lines = (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


# ---------------------------------------------------------------- a run

def test_a_run_leaves_everything_in_its_folder(trained):
    folder, done = trained
    assert {path.name for path in folder.iterdir()} == {
        "config.json", "log.jsonl", "curves.png", "model.safetensors"}
    assert list(folder.parent.iterdir()) == [folder]
    assert (folder / "curves.png").read_bytes().startswith(b"\x89PNG")
    for expected in ("pairs read", "4,000", "P@10", "TF-IDF cosine", "BM25", "STS built-in set",
                     "trained, as cosine", "before training", str(folder)):
        assert expected in done.stdout


def test_the_loss_falls_and_the_true_reply_is_found_more_often(trained):
    records = records_of(trained[0])
    assert {type(value) for record in records for value in record.values()} == {int, float}
    losses = [record["loss"] for record in records if "loss" in record]
    measured = [record for record in records if "dev_p1" in record]
    assert losses[-1] < 0.95 * losses[0]
    assert [record["step"] for record in measured] == [0, 30]
    # Not P@1: replies on one topic cannot be told apart, and with 153 queries its standard error
    # is 4.
    assert measured[-1]["dev_p10"] > measured[0]["dev_p10"]


def test_a_run_replays_bit_by_bit_from_its_config(trained, tmp_path):
    folder, _ = trained
    again = tmp_path / "again"
    done = command("train", "--config", folder / "config.json", "--run", again, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert weights(again) == weights(folder)
    configs = [json.loads((run / "config.json").read_text()) for run in (folder, again)]
    assert [config.pop("run") for config in configs] == [str(folder), str(again)]
    assert configs[0] == configs[1]


def test_another_seed_gives_another_run_that_says_what_it_has_left(trained, tmp_path):
    before = os.umask(0o027)
    try:
        done = command("train", "--config", trained[0] / "config.json", "--run", "run",
                       "--seed", 2, "--evaluations", 3, cwd=tmp_path)
    finally:
        os.umask(before)
    assert (done.returncode, done.stderr) == (0, "")          # a log file has no progress bar
    assert weights(tmp_path / "run") != weights(trained[0])
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "run").iterdir()} == {0o640}
    assert re.findall("^step +([0-9]+)", done.stdout, re.M) == ["0", "10", "20", "30"]
    best = describe(tmp_path / "run").step
    assert f"The weights are those of step {best} of 30, the best on dev." in done.stdout
    assert re.search(r"^The run is in run \(\d+ MB\)", done.stdout, re.M)


def test_runs_without_a_name_do_not_overwrite_one_another(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("chat", "chat-2"):
        config = parse_config([*map(str, arguments), "--epochs", "0.04", "--evaluations", "1"])
        assert train.train(config).folder == Path("runs", name)
        written = json.loads(Path("runs", name, "config.json").read_text())
        assert written["steps"] == describe(f"runs/{name}").config.steps == 2


def test_the_papers_recipe_trains(arguments, corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(train, "finish", lambda *_: None)     # keeps the last weights, best or not
    config = parse_config([*map(str, arguments), "--preset", "paper", "--steps", "8",
                           "--evaluations", "1", "--run", str(tmp_path / "run")])
    assert config.optim.loss == "sum"
    start, folder = initial_model(config, corpus).params, train.train(config).folder
    for name, p in load_run(newest(folder)).model.params.items():
        assert (p != start[name]).any(), name


def test_a_training_and_its_summary_hold_two_tables_at_a_time(arguments, tmp_path):
    rows, width = 300_000, 16
    options = [*map(str, arguments), "--text.bigrams", str(rows), "--steps", 20,
               "--evaluations", 1, "--run", tmp_path / "run"]
    train.train(parse_config([*map(str, arguments), "--steps", "1", "--run", f"{tmp_path}/warm"]))
    tracemalloc.start()                                       # imports do not count
    try:
        summary(train.train(parse_config([*map(str, options)])))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2.6 * 4 * rows * width    # the run's and the one before training


# ---------------------------------------------------------------- what is measured during training

def test_dev_is_measured_by_the_responses_v_prime_of_dev_alone(arguments, corpus):
    config = parse_config([*map(str, arguments), "--preset", "paper"])    # v′ is far from v
    model = train.starting_model(config, corpus)
    without_nli = SimpleNamespace(nli_dev=None)
    measured = train.measuring_dev(config, corpus, without_nli)(model)

    dev = corpus.dev
    pairs, candidates = drawn(dev)
    u, v = (embed(model, dev.sentences(2 * pairs + side)) for side in (0, 1))
    replies = response_forward(model, v)[0]
    ranks = []
    for query, own in enumerate(candidates):
        scores = [float(u[query] @ replies[response]) for response in own]
        ranks.append(sum(score >= scores[0] for score in scores))
    for n in (1, 3, 10):
        share = float(np.mean([rank <= n for rank in ranks]))
        assert measured[f"dev_p{n}"] == round(100 * share, 2)
    others = corpus._replace(train=corpus.test, test=corpus.train)
    assert train.measuring_dev(config, others, without_nli)(model) == measured
    others = corpus._replace(dev=corpus.train)
    assert train.measuring_dev(config, others, without_nli)(model) != measured


# ---------------------------------------------------------------- evaluating a run

def test_evaluations_show_what_training_reported(run_copy, trained, tmp_path):
    outputs = {task: command("evaluation", run_copy, "--on", task, cwd=tmp_path)
               for task in ("response", "sts")}
    assert [done.returncode for done in outputs.values()] == [0, 0], outputs
    shown, reported = outputs["response"].stdout.strip(), trained[1].stdout
    assert "P@10" in shown and "before training" in shown and shown in reported
    rows = [re.findall(r"^trained  .*$", text, re.MULTILINE)[-1].split()
            for text in (outputs["sts"].stdout, reported)]
    assert rows[0] == rows[1]


def test_a_run_is_read_from_anywhere_and_tells_changed_pair_files_from_its_own(
        pairs, write_tsv, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_tsv(tmp_path / "pairs.tsv", pairs)
    train.train(parse_config(["--pairs", "pairs.tsv", "--cache", "cache", *SMALL, "--steps", "2",
                              "--run", "run"]))
    (tmp_path / "elsewhere").mkdir()
    asked = ["evaluation", tmp_path / "run", "--on", "response"]
    assert "P@10" in command(*asked, cwd=tmp_path / "elsewhere").stdout
    write_tsv(tmp_path / "pairs.tsv", pairs + generate_pairs(500, seed=9))
    shown = command(*asked, cwd=tmp_path).stdout
    assert shown.startswith("response: not measured. ") and "the pair files are not those" in shown


# ---------------------------------------------------------------- settings

def test_the_paper_has_larger_batches_and_lower_rates_after_30_of_40_million_steps():
    config = parse_config(["--preset", "paper"])
    assert config.steps == 40_000_000
    expected = {0: (128, 0.01), 29_999_999: (128, 0.01), 30_000_000: (256, 0.001),
                39_999_999: (256, 0.001)}
    for step, (pairs, rate) in expected.items():
        # The gradient is of the mean; the paper's summed loss makes the rate `pairs` times larger.
        assert (rates(config.optim, step, config.steps, pairs)
                == pytest.approx((pairs * rate, pairs * rate)))


def test_options_win_over_the_config_file_and_that_over_the_preset(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"preset": "paper", "steps": 7, "model": {"layers": [8, 9]},
                                "optim": {"learning_rate": 0.5}}))
    config = parse_config(["--config", str(path), "--optim.learning_rate", "0.25"])
    assert ((config.preset, config.steps, config.model.layers, config.optim.learning_rate)
            == ("paper", 7, [8, 9], 0.25))
    assert (config.optim.optimizer, config.model.scale) == ("sgd", 1.0)   # only in the preset


def test_without_a_home_no_folder_is_called_by_its_sign(monkeypatch):
    monkeypatch.setattr(os.path, "expanduser", str)
    with pytest.raises(UserError, match="~/.cache/convsim_mini.*there is no home folder"):
        parse_config([])


def test_encoder_is_short_for_its_preset_and_what_a_file_lacks_an_option_may_give(tmp_path):
    config = parse_config(["--encoder", "transformer"])
    assert (config.preset, config.model.encoder, config.steps) == (
        "transformer-small", "transformer", None)
    assert parse_config(["--encoder", "transformer", "--steps", "7"]).steps == 7
    (tmp_path / "c.json").write_text('{"preset": "similarity"}')
    config = parse_config(["--config", str(tmp_path / "c.json"), "--nli", str(tmp_path)])
    assert (config.task, config.nli) == ("entailment", str(tmp_path))


def test_the_help_has_every_setting(capsys):
    with pytest.raises(SystemExit):
        parse_config(["--help"])
    text = capsys.readouterr().out
    assert all(f"--{name} " in text for name in settings())
    assert "Adam" in text                                     # from the docstring under the setting


@pytest.mark.parametrize("options, steps", [
    ([], 20),                                                 # 2 · 1,000 pairs in batches of 100
    (["--epochs", "0.5"], 5), (["--epochs", "0.01"], 1), (["--steps", "700"], 700),
    (["--steps", "700", "--epochs", "3"], 700), (["--config", "run.json"], 700),
    (["--config", "run.json", "--epochs", "3"], 30), (["--encoder", "transformer"], 20),
    (["--config", "mine.json"], 24),                          # the last quarter: batches of 200
    (["--task", "multitask", "--nli", "x", "--nli_share", "0.2"], 25)])    # 5 of them train NLI
def test_steps_follow_from_epochs_where_only_these_are_given(options, steps, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("run.json").write_text('{"steps": 700, "epochs": 2.0}')
    Path("mine.json").write_text('{"preset": "paper", "epochs": 3.0}')
    sizes = ["--optim.batch_size", "100", "--optim.nli_batch_size", "50"]
    config = parse_config([*options, *sizes])
    nli = SimpleNamespace(pairs=400) if config.nli else None
    assert fitted(config, Tasks(SimpleNamespace(pairs=1_000), nli)).steps == steps
