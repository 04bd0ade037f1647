"""Natural language inference: reader, schedule of two tasks, start from a run, learning."""

import json
from itertools import islice

import numpy as np
import pytest

from convsim_mini import train
from convsim_mini.common.cli import UserError
from convsim_mini.data.labelled import encode_snli
from convsim_mini.evaluation import nli as evaluation
from convsim_mini.evaluation.metrics import per_cent
from convsim_mini.core.gradcheck import dense
from convsim_mini.core.loop import step_gradients
from convsim_mini.core.model import loss_and_gradients
from convsim_mini.training.run import load_run, read_log
from convsim_mini.data.labelled import Snli, find_snli, read_snli
from convsim_mini.training.tasks import Tasks, batches_of_tasks, open_tasks

from conftest import command, generate_nli, parse_config, write_snli


# ---------------------------------------------------------------- reading

def test_the_official_files_are_read_whole_and_pairs_without_label_dropped(data_folder):
    expected = {"train": (20_000, 0), "dev": (9_842, 0), "test": (9_824, 0)}
    for split, path in find_snli(data_folder, ("train", "dev", "test")).items():
        snli = read_snli(path)
        assert (len(snli.labels), snli.dropped) == expected[split]
    samples = data_folder / "snli_official_samples"
    snli = read_snli(samples / "Deltaus_dev_1288.jsonl")
    lines = [json.loads(line) for line in open(samples / "Deltaus_dev_1288.jsonl")]
    assert len(snli.labels) + snli.dropped == len(lines)
    assert snli.dropped == sum(line["gold_label"] == "-" for line in lines) > 0
    assert snli.premises == [line["sentence1"] for line in lines if line["gold_label"] != "-"]


def test_pairs_with_an_empty_side_are_left_out_and_counted(tmp_path):
    path = write_snli(tmp_path, "dev", [("neutral", "a", "b"), ("neutral", " ", "b"),
                                        ("entailment", "a", ""), ("-", "a", "b")])
    snli = read_snli(path)
    assert (snli.premises, snli.hypotheses, snli.dropped) == (["a"], ["b"], 3)


def test_a_smaller_fraction_is_part_of_a_larger_one(corpus, pairs):
    rows = generate_nli(pairs, 200)
    snli = Snli([one for _, one, _ in rows], [two for _, _, two in rows], np.arange(200), 0)
    kept = [set(encode_snli(snli, corpus.vocabulary, fraction, seed=1).labels.tolist())
            for fraction in (0.1, 0.4, 1)]
    assert [len(some) for some in kept] == [20, 80, 200]
    assert kept[0] < kept[1] < kept[2]
    split = encode_snli(snli, corpus.vocabulary)
    batch = split.batch(np.array([7, 3]))
    expected = corpus.vocabulary.encode([rows[7][1], rows[3][1], rows[7][2], rows[3][2]])
    assert (batch.sentences.ids == expected.ids).all() and batch.labels.tolist() == [7, 3]


# ---------------------------------------------------------------- two tasks

def config(arguments, nli_folder, *more):
    return parse_config([*map(str, arguments), "--nli", str(nli_folder), *map(str, more)])


@pytest.mark.parametrize("share", [0.05, 0.3])
def test_an_even_share_of_the_steps_trains_nli_and_any_step_can_be_taken_up(
        arguments, nli_folder, corpus, share):
    settings = config(arguments, nli_folder, "--task", "multitask", "--nli_share", share,
                      "--steps", 200, "--optim.drop_at", 0.5,
                      "--optim.nli_batch_size", 20)
    tasks = open_tasks(settings, corpus)
    whole = list(islice(batches_of_tasks(settings, tasks), 200))
    is_nli = np.array([batch.task == "classes" for batch in whole])
    assert is_nli.sum() == round(200 * share)
    assert set(np.diff(np.flatnonzero(is_nli))) <= {int(1 / share), int(np.ceil(1 / share))}
    assert {len(batch.labels) for batch in whole[:100] if batch.task == "classes"} == {20}
    assert {len(batch.labels) for batch in whole[100:] if batch.task == "classes"} == {40}
    for first in (1, 99, 100, 131):
        later = batches_of_tasks(settings, tasks, first)
        for expected, found in zip(whole[first:first + 30], later):
            assert expected.task == found.task
            assert (expected.sentences.ids == found.sentences.ids).all()


def test_a_multitask_run_learns_both(trained, nli_folder, tmp_path):
    options = ["--task", "multitask", "--nli_share", 0.5, "--init", trained[0], "--nli", nli_folder,
               "--steps", 200, "--evaluations", 2, "--optim.nli_batch_size", 60,
               "--optim.learning_rate", 0.005, "--run", tmp_path / "run"]
    train.train(parse_config([*map(str, options)]))
    log = read_log(tmp_path / "run" / "log.jsonl")
    measured = [record for record in log if "dev_p1" in record]
    assert measured[0]["nli"] < 45 and measured[-1]["nli"] > 60, measured
    assert measured[-1]["dev_p10"] > 60
    assert all({"loss", "nli_loss"} < record.keys() for record in log
               if record["step"] > 1 and not {"dev_p1", "machine"} & record.keys())
    assert (tmp_path / "run" / "curves.png").stat().st_size > 10_000

    done = command("evaluation", "run", "--on", "nli", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("SNLI dev, 200 pairs (1 left out: no label or no text)")
    figures = [float(line.split("[")[0].split()[-1]) for line in done.stdout.splitlines()[4:6]]
    best = [record for record in measured if record["step"] == load_run(tmp_path / "run").step][0]
    assert figures[0] == pytest.approx(best["nli"], abs=0.06) and figures[0] > figures[1] > 30


def test_a_run_that_starts_from_another_takes_over_its_settings_and_parameters(
        trained, nli_folder, corpus):
    run = load_run(trained[0])
    settings = parse_config(["--init", str(trained[0]), "--task", "multitask",
                             "--nli", str(nli_folder), "--optim.learning_rate", "0.7"])
    assert ((settings.pairs, settings.text, settings.model)
            == (run.config.pairs, run.config.text, run.config.model))
    assert settings.optim.batch_size == run.config.optim.batch_size
    assert settings.optim.learning_rate == 0.7
    assert settings.steps is None                             # not inherited from the run
    model = train.starting_model(settings, corpus)
    assert model.params.keys() - run.model.params.keys() == {
        "nli.linear0.weight", "nli.linear0.bias", "nli.linear1.weight", "nli.linear1.bias"}
    assert all((model.params[name] == p).all() for name, p in run.model.params.items())
    with pytest.raises(UserError, match="^--init .*: its weights do not fit the settings"):
        parse_config(["--init", str(trained[0]), "--model.response_hidden", "7",
                      "--model.scale", "3"])                  # the scale changes no shape


def test_the_weight_of_nli_reaches_the_gradients_and_not_the_loss(trained, nli_folder, corpus):
    settings = config(["--init", trained[0]], nli_folder, "--task", "multitask", "--nli_share", 0.5,
                      "--optim.nli_weight", 7, "--optim.nli_batch_size", 60, "--steps", 2)
    model = train.starting_model(settings, corpus)
    batch = next(batch for batch in batches_of_tasks(settings, open_tasks(settings, corpus))
                 if batch.task == "classes")
    (loss, grads), (same, heavy) = (loss_and_gradients(model, batch, weight=weight)
                                    for weight in (1, 7))
    assert loss == same
    for name, grad in grads.items():
        np.testing.assert_allclose(dense(heavy[name], model.params[name]),
                                   7 * dense(grad, model.params[name]), atol=1e-6)
    losses, of_step = step_gradients(model, settings, batch, 0)
    assert losses == {"nli_loss": loss}
    assert (of_step["nli.linear1.weight"] == heavy["nli.linear1.weight"]).all()


def test_entailments_are_the_entailed_pairs(corpus):
    words = [piece for piece in corpus.vocabulary.pieces if not piece.startswith("##")]
    snli = Snli([words[0], words[0], words[3], words[4]], [words[1], words[2], words[1], words[5]],
                np.array([0, 0, 0, 1]), 0)
    split = encode_snli(snli, corpus.vocabulary, task="entailments")
    assert split.pairs == 3
    batch = split.batch(np.array([2, 0, 1]))
    found = [corpus.vocabulary.token(word) for word in batch.sentences.ids]
    assert found == [words[3], words[0], words[0], words[1], words[1], words[2]]


def test_a_run_with_entailments_learns_both(arguments, nli_folder, tmp_path, capsys):
    train.train(config(arguments, nli_folder, "--task", "entailment", "--nli_share", 0.5,
                       "--optim.nli_batch_size", 50, "--steps", 40, "--evaluations", 2,
                       "--run", tmp_path))
    assert "(100%); 1 pairs of the file have no label or no text" in capsys.readouterr().out
    losses = [record["nli_loss"] for record in read_log(tmp_path / "log.jsonl")
              if "nli_loss" in record]
    run = load_run(tmp_path)
    assert losses[-1] < 0.2 < losses[0] and run.config.task == "entailment"
    assert not [name for name in run.model.params if name.startswith("nli.")]


def test_a_second_stage_with_the_seed_of_the_first_sees_other_batches(trained, corpus, arguments):
    options = [*map(str, arguments), "--steps", "1"]
    first, second = parse_config(options), parse_config([*options, "--init", str(trained[0])])
    assert (first.stage, second.stage) == (0, 1)
    tasks = Tasks(corpus.train)
    one, two = (next(batches_of_tasks(config, tasks)).sentences for config in (first, second))
    assert not np.array_equal(one.ids, two.ids)
    assert np.array_equal(two.ids, next(batches_of_tasks(second, tasks)).sentences.ids)


# ---------------------------------------------------------------- evaluation

def test_accuracy_and_the_most_frequent_class():
    labels, predicted = np.array([0, 0, 1, 1, 0, 0]), np.array([0, 1, 1, 0, 0, 2])
    pairs = Snli([], [], labels, 0)
    assert evaluation.figures(pairs, predicted)["accuracy"][0] == 50
    (most,) = evaluation.baselines(None, pairs).values()
    assert evaluation.figures(pairs, most)["accuracy"] == per_cent(labels == 0)
    assert evaluation.lead(pairs, predicted, most)[0] == pytest.approx(50 - 400 / 6)
