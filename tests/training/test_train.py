"""Training as a user runs it: a whole run, its replay, its evaluation, its settings."""

import json
import os
import re
from dataclasses import asdict
from pathlib import Path

import pytest

from convsim_mini import train
from convsim_mini.common.cli import UserError
from convsim_mini.config import OptimConfig, config_from_dict, flat, settings
from convsim_mini.training.initial import initial_model
from convsim_mini.training.options import parse_config
from convsim_mini.training.run import describe
from convsim_mini.core.schedule import rates
from convsim_mini.training.tasks import Tasks, batch_sizes

from conftest import SMALL, command, generate_pairs, weights


def log(folder):
    return [json.loads(line)
            for line in (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()]


# ---------------------------------------------------------------- a run

def test_a_run_leaves_everything_in_its_folder(trained):
    folder, done = trained
    assert {path.name for path in folder.iterdir()} == {
        "config.json", "log.jsonl", "loss.png", "p_at_n.png", "model.safetensors"}
    assert list(folder.parent.iterdir()) == [folder]
    for name in ("loss.png", "p_at_n.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    for expected in ("pairs read", "4,000", "P@10", "TF-IDF cosine", "BM25", "STS own set",
                     "trained", str(folder)):
        assert expected in done.stdout


def test_the_loss_falls_and_the_true_reply_is_found_more_often(trained):
    records = log(trained[0])
    assert {type(value) for record in records for value in record.values()} == {int, float, str}
    losses = [record["loss"] for record in records if "loss" in record]
    measured = [record for record in records if "dev_p1" in record]
    assert losses[-1] < 0.9 * losses[0]
    assert [record["step"] for record in measured] == [0, 30]
    # Not P@1: replies of one topic cannot be told apart, and 153 queries leave it a standard error
    # of 4.
    assert measured[-1]["dev_p10"] > measured[0]["dev_p10"]


def test_the_loss_on_dev_masks_what_the_training_loss_masks(arguments, corpus):
    losses = []
    for masked in ("true", "false"):
        config = parse_config([*map(str, arguments), "--optim.mask_false_negatives", masked])
        measure = train.measuring_dev(config, corpus, Tasks(corpus.train, None, None))
        losses.append(measure(initial_model(config, corpus))["dev_loss"])
    assert losses[0] < losses[1]                              # fewer wrong answers to choose from


def test_training_moves_every_parameter(trained, corpus):
    start = initial_model(describe(trained[0]).config, corpus).params
    before, after = {name: p.tobytes() for name, p in start.items()}, weights(trained[0])
    del after["matrix.all_but_the_top"]
    assert before.keys() == after.keys() and len(before) == 1 + 1 + 2 * 2  # the encoder has no bias
    assert [name for name in before if before[name] == after[name]] == []


def test_a_run_replays_bit_by_bit_from_its_config(trained, tmp_path):
    folder, _ = trained
    again = tmp_path / "again"
    done = command("train", "--config", folder / "config.json", "--run", again, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert weights(again) == weights(folder)
    configs = [json.loads((run / "config.json").read_text()) for run in (folder, again)]
    assert [config.pop("run") for config in configs] == [str(folder), str(again)]
    assert configs[0] == configs[1]


def test_another_seed_gives_another_run(trained, tmp_path):
    done = command("train", "--config", trained[0] / "config.json", "--run", "other", "--seed", 2,
                   cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert weights(tmp_path / "other") != weights(trained[0])


def test_the_summary_says_which_step_is_kept_and_how_large_it_is(trained, tmp_path):
    done = command("train", "--config", trained[0] / "config.json", "--run", "run", "--steps", 9,
                   "--evaluations", 3, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    best = describe(tmp_path / "run").step
    assert re.search(
        rf"The run is in run, \d+ MB: the weights of step {best} of 9, the best on dev",
        done.stdout)


def test_files_of_a_run_can_be_read_by_whom_the_umask_allows(trained, tmp_path):
    before = os.umask(0o027)
    try:
        done = command("train", "--config", trained[0] / "config.json", "--run", "run",
                       "--steps", 2, cwd=tmp_path)
    finally:
        os.umask(before)
    assert done.returncode == 0, done.stderr
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "run").iterdir()} == {0o640}


def test_a_log_file_is_not_filled_with_progress_bars(trained, tmp_path):
    done = command("train", "--config", trained[0] / "config.json", "--run", "run", "--steps", 200,
                   cwd=tmp_path)
    assert done.returncode == 0 and "\r" not in done.stdout + done.stderr
    assert len(done.stderr.splitlines()) <= 2 and len(re.findall("^step ", done.stdout, re.M)) == 2


@pytest.mark.long
def test_runs_without_a_name_do_not_overwrite_one_another(arguments, tmp_path):
    for name in ("chat", "chat-2"):
        done = command("train", *arguments, "--steps", 2, "--evaluations", 1, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "runs" / name / "model.safetensors").exists()


def test_the_papers_recipe_trains(arguments, tmp_path):
    done = command("train", *arguments, "--preset", "paper", "--steps", 8, "--evaluations", 1,
                   "--run", "run", "--optim.dropped_batch_size", 100, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert ((config["optim"]["optimizer"], config["optim"]["loss"], config["model"]["scale"])
            == ("sgd", "sum", 1.0))
    # Options win over the preset.
    assert (config["optim"]["batch_size"], config["model"]["layers"]) == (64, [16])


@pytest.mark.long
@pytest.mark.parametrize("more", [[], ["--text.words", 1]])
def test_few_distinct_words_are_enough_for_the_default_model(write_tsv, tmp_path, more):
    # All dimensions of a word start from an SVD of the words' co-occurrences.
    words = sorted({word for pair in generate_pairs(50) for text in pair
                    for word in text[:-1].split()})[:60]
    pairs = [(f"{a} {b} {c}", f"{c} {a}") for a in words for b in words[:10] for c in words[:7]]
    path = write_tsv(tmp_path / "pairs.tsv", pairs)
    done = command("train", "--pairs", path, "--cache", "cache", "--steps", 2, "--evaluations", 1,
                   "--run", "run", *more, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


# ---------------------------------------------------------------- evaluating a run

def test_response_prediction_of_a_run_is_what_training_reported(trained, tmp_path):
    folder, trained_output = trained
    done = command("evaluation.response", folder, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "P@10" in done.stdout and done.stdout.strip() in trained_output.stdout
    for name in ("trained", "the same, untrained", "TF-IDF cosine", "BM25"):
        assert re.search(rf"^{name} +\d", done.stdout, re.MULTILINE)


def test_sts_of_a_run_is_reported_and_drawn(run_copy, trained, tmp_path):
    done = command("evaluation.sts", run_copy, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (run_copy / "sts_own_set.png").read_bytes().startswith(b"\x89PNG")
    (row,) = re.findall(r"^trained .*$", done.stdout, re.MULTILINE)
    assert row.split() == [line for line in trained[1].stdout.splitlines()
                           if line.startswith("trained ")][-1].split()


def test_sts_of_a_run_on_files_of_the_benchmark(run_copy, tmp_path):
    row = "main-{}\tfile\t2012\t1\t{}\t{}\t{}\n"
    rows = [row.format(genre, n % 6, f"sentence {n}", f"sentence {n % 4}")
            for genre in ("captions", "forums", "news") for n in range(12)]
    for name in ("dev", "test"):
        (tmp_path / f"sts-{name}.csv").write_text("".join(rows))
    done = command("evaluation.sts", run_copy, "--data", tmp_path, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "STS dev" in done.stdout and "STS test" in done.stdout and "all 36" in done.stdout
    assert (run_copy / "sts_dev.png").exists() and (run_copy / "sts_test.png").exists()


def test_changed_pair_files_are_told_from_those_of_the_run(pairs, write_tsv, tmp_path):
    path = write_tsv(tmp_path / "pairs.tsv", pairs)
    done = command("train", "--pairs", path, "--cache", "cache", *SMALL, "--steps", 2,
                   "--run", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    write_tsv(path, pairs + generate_pairs(500, seed=9))
    done = command("evaluation.response", "run", cwd=tmp_path)
    assert done.returncode == 2
    assert "the pair files are not those" in done.stderr.splitlines()[-1]


# ---------------------------------------------------------------- learning rates

def test_rates_rise_hold_and_fall_to_zero_at_the_last_step():
    optim = OptimConfig(rate=2.0, table_rate=10.0, warmup=60)
    dense, table = zip(*(rates(optim, step, 160, 1024) for step in range(160)))
    assert dense[:60] == pytest.approx([2 * (step + 1) / 60 for step in range(60)])
    assert dense[60:] == pytest.approx([2 * (160 - step) / 100 for step in range(60, 160)])
    assert table == pytest.approx([5 * rate for rate in dense])
    assert min(dense) > 0


def test_rates_without_warm_up_and_decay_are_constant():
    optim = OptimConfig(rate=2.0, table_rate=10.0, warmup=0, decay="none")
    assert {rates(optim, step, 100, 1024) for step in range(100)} == {(2.0, 10.0)}


def test_a_summed_loss_makes_the_rates_of_sgd_larger_and_leaves_those_of_adam():
    for optimizer, factor in (("sgd", 1024), ("adaptive", 1)):
        optim = OptimConfig(optimizer=optimizer, loss="sum", rate=2.0, table_rate=10.0, warmup=0,
                            decay="none")
        assert rates(optim, 7, 100, 1024) == (factor * 2.0, factor * 10.0)


def test_the_papers_rates_drop_after_30_of_40_million_steps():
    config = parse_config(["--preset", "paper"])
    assert config.steps == 40_000_000
    expected = {0: (128, 0.01), 29_999_999: (128, 0.01), 30_000_000: (256, 0.001),
                39_999_999: (256, 0.001)}
    for step, (pairs, rate) in expected.items():
        assert batch_sizes(config.optim, step, config.steps) == (pairs, pairs)
        # The gradient is the mean's: the paper's summed loss makes the rate `pairs` times larger.
        assert (rates(config.optim, step, config.steps, pairs)
                == pytest.approx((pairs * rate, pairs * rate)))


def test_the_tables_rate_drops_by_the_same_factor_as_the_dense_one():
    optim = OptimConfig(rate=0.5, table_rate=3.0, warmup=0, decay="none", drop_at=0.5,
                        dropped_rate=0.1)
    assert rates(optim, 49, 100, 1024) == (0.5, 3.0)
    assert rates(optim, 50, 100, 256) == pytest.approx((0.1, 0.6))


# ---------------------------------------------------------------- settings

def test_options_win_over_the_config_file_and_that_over_the_preset(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"preset": "paper", "steps": 7, "model": {"layers": [8, 9]},
                                "optim": {"rate": 0.5}}))
    config = parse_config(["--config", str(path), "--optim.rate", "0.25"])
    assert ((config.preset, config.steps, config.model.layers, config.optim.rate)
            == ("paper", 7, [8, 9], 0.25))
    assert (config.optim.optimizer, config.model.scale) == ("sgd", 1.0)   # the preset alone says so


@pytest.mark.parametrize("options", [
    ["--pairs", "a.tsv", "b.tsv"], ["--pairs", '["a.tsv", "b.tsv"]'],
    ['--pairs=["a.tsv", "b.tsv"]'], ["--pairs=a.tsv", "b.tsv"]])
def test_lists_may_be_given_plainly_or_as_json(options):
    assert parse_config([*options, "--steps", "5"]).pairs == [
        str(Path(name).resolve()) for name in ("a.tsv", "b.tsv")]


def test_every_preset_survives_its_config_file():
    for preset in ("chat", "paper"):
        config = parse_config(["--preset", preset])
        assert config_from_dict(json.loads(json.dumps(asdict(config))), "here") == config
    with pytest.raises(UserError, match="here: .*steps"):
        config_from_dict({"steps": "many"}, "here")


def test_every_number_of_a_parsed_or_loaded_config_is_exactly_an_int_or_a_float():
    """CuPy refuses subclasses of float, such as a parser may make."""
    parsed = parse_config(["--model.scale", "3", "--steps", "7", "--model.layers", "8", "9"])
    loaded = config_from_dict({"steps": 7, "model": {"scale": 3, "layers": [8, 9]}}, "here")
    for config in (parsed, loaded):
        values = flat(asdict(config))
        numbers = [*values.pop("model.layers"),
                   *(value for value in values.values() if not isinstance(value, (str, list)))]
        assert {type(number) for number in numbers} <= {int, float, bool, type(None)}
        assert (type(values["model.scale"]), type(values["steps"])) == (float, int)


def test_the_help_is_two_screens_and_the_long_one_has_every_setting(capsys):
    texts = {}
    for option in ("--help", "--help-all"):
        with pytest.raises(SystemExit):
            parse_config([option])
        texts[option] = capsys.readouterr().out
    assert len(texts["--help"].splitlines()) <= 60 and "--optim" not in texts["--help"]
    assert all(f"--{name} " in texts["--help-all"] for name in settings())
    assert "Adam" in texts["--help-all"]                      # from the docstring under the setting


def test_what_print_config_prints_can_be_given_back(tmp_path):
    printed = command("train", "--preset", "paper", "--print_config", cwd=tmp_path)
    assert printed.returncode == 0, printed.stderr
    (tmp_path / "mine.json").write_text(printed.stdout)
    assert (parse_config(["--config", str(tmp_path / "mine.json")])
            == parse_config(["--preset", "paper"]))


def test_a_run_is_read_from_another_folder_than_it_was_trained_in(pairs, write_tsv, tmp_path):
    write_tsv(tmp_path / "pairs.tsv", pairs)
    done = command("train", "--pairs", "pairs.tsv", "--cache", "cache", *SMALL, "--steps", 2,
                   "--run", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (tmp_path / "elsewhere").mkdir()
    done = command("evaluation.response", tmp_path / "run", cwd=tmp_path / "elsewhere")
    assert done.returncode == 0, done.stderr


def test_the_example_at_the_end_has_one_meaning_in_each_shell(trained, corpus):
    text = 'he "said" $(ls) `ls`, it\'s “5%”\\!'
    theirs = corpus._replace(report={**corpus.report, "examples": [[text, "no"]]})
    line, = re.findall(r"encode .*", train.summary(trained[0], theirs))
    assert line == f'encode {trained[0]} "he said (ls) ls, it\'s 5" "How old are you?"'
