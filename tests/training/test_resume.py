"""A run that is stopped, killed or fails: what is kept, and how it resumes."""

import os
import resource
import shutil
import signal
import subprocess
import sys
from functools import partial

import numpy as np
import pytest

from convsim_mini import train
from convsim_mini.common.cli import UserError, errors_in_one_line
from convsim_mini.config import Config
from convsim_mini.data.prepare import open_corpus
from convsim_mini.evaluation.after_training import summary
from convsim_mini.inference.sentence_encoder import encoder_of
from convsim_mini.training.measures import scores_on_dev
from convsim_mini.training.run import (
    MODEL, TRAINING, Run, describe, finished, keep_as_best, load_run, newest, read_log, save_run)
from convsim_mini import load
from convsim_mini.core.model import TABLE, Model
from convsim_mini.core.text import Vocabulary
from convsim_mini.core import loop
from convsim_mini.training import monitor
from convsim_mini.training.start import initial_model

from conftest import PATH, SMALL, ended, parse_config, wait_for, weights

STEPS = 40
OPTIONS = {
    "chat": [],
    "sgd": ["--optim.optimizer", "sgd", "--optim.loss", "sum", "--optim.drop_at", "0.5"],
    "transformer": ["--encoder", "transformer", "--model.transformer_layers", "1", "--model.heads",
                    "2", "--model.hidden", "16", "--model.dropout", "0.2"],
    "multitask": ["--task", "multitask", "--nli", "NLI", "--nli_share", "0.3",
                  "--optim.nli_batch_size", "60"],
}


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch):
    """Draws no curves: that takes longer than these runs."""
    monkeypatch.setattr(monitor, "plot_curves", lambda *_: None)


@pytest.fixture
def last_checkpoint_kept(monkeypatch):
    """Finished runs keep the newest weights and state, so that these can be compared."""
    monkeypatch.setattr(train, "finish", lambda *_: None)


@pytest.fixture
def config(pair_file, cache_folder, nli_folder, tmp_path):
    """A function: NAME → Config of a run of 40 steps, four checkpoints, in tmp_path/NAME."""
    def make(name, options=()):
        return parse_config([*SMALL, "--pairs", str(pair_file), "--cache", str(cache_folder),
                             "--steps", str(STEPS), "--evaluations", "4",
                             "--run", str(tmp_path / name),
                             *(option.replace("NLI", str(nli_folder)) for option in options)])
    return make


def wrap_step(monkeypatch, before):
    """Call before(call number, from 0) before each step; a result other than None is the loss."""
    real, calls = loop.loss_and_gradients, iter(range(10**9))

    def wrapped(*arguments):
        replaced = before(next(calls))
        loss, grads = real(*arguments)
        return (loss if replaced is None else np.float32(replaced)), grads

    monkeypatch.setattr(loop, "loss_and_gradients", wrapped)


def interrupt_at(step):
    return lambda call: os.kill(os.getpid(), signal.SIGINT) if call == step - 1 else None


# ---------------------------------------------------------------- signals

@pytest.mark.parametrize("name, stops", [
    ("chat", [7, 10, 33]), ("sgd", [15, 5, 15]), ("transformer", [13]), ("multitask", [13])])
def test_a_resumed_run_ends_with_the_bits_of_one_that_never_stopped(
        config, last_checkpoint_kept, monkeypatch, tmp_path, name, stops):
    train.train(config("whole", OPTIONS[name]))
    begin = partial(train.train, config("parts", OPTIONS[name]))
    done = 0
    for stop in stops:                                        # steps since the last stop
        if done + stop < STEPS:
            with monkeypatch.context() as patch:
                wrap_step(patch, interrupt_at(stop))
                with pytest.raises(KeyboardInterrupt):
                    begin()
            done += stop
            assert describe(newest(tmp_path / "parts")).step == done
            assert load(tmp_path / "parts").encode(["a usable run"]).shape == (1, 16)
        begin = partial(train.resume, tmp_path / "parts")
    begin()
    for file in (TRAINING, MODEL):
        assert weights(tmp_path / "parts", file) == weights(tmp_path / "whole", file)
    measured = [[record for record in read_log(tmp_path / run / "log.jsonl") if "dev_p1" in record]
                for run in ("whole", "parts")]
    assert ([r["step"] for r in measured[0]] == [r["step"] for r in measured[1]]
            == [0, 10, 20, 30, 40])
    for one, two in zip(*measured):
        assert one | {"seconds": 0} == two | {"seconds": 0}


def test_a_kill_between_a_checkpoint_and_the_best_model_changes_nothing(
        config, monkeypatch, tmp_path):
    train.train(config("whole"))
    for killed in (1, 2):                                     # before the first and the second copy
        kept = []

        def keep(folder, kept=kept, killed=killed):
            kept.append(folder)
            if len(kept) == killed:
                raise SystemExit
            keep_as_best(folder)

        name = f"killed-{killed}"
        with monkeypatch.context() as patch, pytest.raises(SystemExit):
            patch.setattr(monitor, "keep_as_best", keep)
            train.train(config(name))
        assert (tmp_path / name / MODEL).exists() == (killed > 1)
        train.resume(tmp_path / name)
        assert weights(tmp_path / name) == weights(tmp_path / "whole")


def test_a_signal_during_the_last_checkpoint_is_heard(config, monkeypatch, tmp_path):
    def checkpoint(self, step, *others):
        real(self, step, *others)
        if step == STEPS:
            os.kill(os.getpid(), signal.SIGTERM)

    real = monitor.Monitor.checkpoint
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(monitor.Monitor, "checkpoint", checkpoint)
        train.train(config("run"))
    train.resume(tmp_path / "run")
    assert weights(tmp_path / "run") == weights(train.train(config("whole")).folder)


def test_a_damaged_best_model_is_told_before_the_training_goes_on(config, monkeypatch, tmp_path):
    monkeypatch.setattr(train, "measuring_dev", lambda *_: lambda model: {
        "dev_p1": best.pop(), "dev_p3": 0, "dev_p10": 0, "dev_loss": 1})
    best = [0, 0, 0, 5, 9, 1]    # from the last: the first step is best
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        wrap_step(patch, interrupt_at(25))
        train.train(config("run"))
    shutil.copy(tmp_path / "run" / TRAINING, tmp_path / "run" / MODEL)
    with pytest.raises(UserError, match="model.safetensors: is of step 25, but step 10 is the b"):
        train.resume(tmp_path / "run")
    (tmp_path / "run" / MODEL).unlink()
    with pytest.raises(UserError, match="model.safetensors: is missing.*restore it, or train"):
        train.resume(tmp_path / "run")
    assert describe(newest(tmp_path / "run")).step == 25


def test_resuming_a_finished_run_changes_nothing(config, tmp_path, monkeypatch):
    folder = train.train(config("run")).folder
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    train.resume(folder / MODEL)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    with monkeypatch.context() as patch:
        patch.setattr(train, "finish", lambda *_: None)
        train.train(config("again"))                          # as if killed just before its end
    train.resume(tmp_path / "again")
    assert weights(tmp_path / "again") == weights(folder) and finished(tmp_path / "again")
    shutil.copy(folder / "model.safetensors", folder / "training.safetensors")
    with pytest.raises(UserError, match="training.safetensors: lacks the optimiser's state"):
        train.resume(folder)


def test_a_signal_stops_a_training_after_the_step_and_it_says_how_to_go_on(arguments, tmp_path):
    words = [sys.executable, "-m", "convsim_mini.train", *arguments, "--steps", 10**6, "--run"]
    process = subprocess.Popen([*map(str, words), "run"], cwd=tmp_path, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": PATH})
    run = tmp_path / "run"
    wait_for(lambda: any("loss" in record for record in read_log(run / "log.jsonl")), process)
    config = parse_config([*map(str, arguments), "--run", str(run)])
    for second in (lambda: train.resume(run), lambda: train.train(config)):
        with pytest.raises(UserError, match="run: another process is training in it; wait"):
            second()
    process.send_signal(signal.SIGTERM)
    stderr = ended(process)[1].decode()
    assert process.returncode == 128 + signal.SIGTERM
    assert stderr.startswith("stopped; resume with:  ") and stderr.count("\n") == 1
    assert stderr.endswith("python -m convsim_mini.train --resume run\n")
    assert load_run(run).step > 0


def test_what_is_ignored_stays_ignored():
    """As nohup and background jobs need it."""
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with errors_in_one_line(), train.stop_requested() as asked:
            os.kill(os.getpid(), signal.SIGTERM)
            assert not asked
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_second_signal_ends_the_step_and_the_first_one_counts():
    with pytest.raises(KeyboardInterrupt) as ended, train.stop_requested() as asked:
        os.kill(os.getpid(), signal.SIGTERM)
        assert asked
        os.kill(os.getpid(), signal.SIGINT)
    assert ended.value.args == (signal.SIGTERM,)


def test_curves_that_cannot_be_drawn_cost_a_line(arguments, tmp_path, monkeypatch, capsys):
    def draw(*_):
        raise RuntimeError("no font")

    monkeypatch.setattr(monitor, "plot_curves", draw)
    options = [*map(str, arguments), "--steps", "9", "--evaluations", "1"]
    folder = train.train(parse_config([*options, "--run", str(tmp_path / "run")])).folder
    assert capsys.readouterr().err == "could not draw the curves (no font)\n"
    assert read_log(folder / "log.jsonl")[-1]["step"] == 9


# ---------------------------------------------------------------- the best step

def on_dev(monkeypatch, *figures):
    """Make the measurements on dev give these P@1, in order."""
    real, left = train.measuring_dev, [*figures]

    def measuring(*arguments):
        measure = real(*arguments)
        return lambda model: {**measure(model), "dev_p1": left.pop(0)}

    monkeypatch.setattr(train, "measuring_dev", measuring)


@pytest.mark.parametrize("best", [10, 20, 40])
def test_a_run_ends_with_the_step_that_is_best_on_dev(
        config, last_checkpoint_kept, monkeypatch, tmp_path, best):
    """P@1 is made highest at one step; `load` then opens exactly that step's weights."""
    on_dev(monkeypatch, 50.0, *(99.0 if step == best else 5.0 for step in (10, 20, 30, 40)))
    folder = train.train(config("run")).folder
    assert (describe(folder).step, describe(newest(folder)).step) == (best, 40)
    kept = weights(folder)
    monkeypatch.undo()
    train.resume(folder)
    assert [path.name for path in folder.glob("*.safetensors")] == [MODEL]
    ended = weights(folder)
    assert load_run(folder).step == best
    assert ended == {name: data for name, data in kept.items() if not name.startswith("state.")}


def test_a_run_that_no_step_makes_better_keeps_its_initial_values(config, monkeypatch, tmp_path):
    on_dev(monkeypatch, 50.0, 49.0, 50.0, 49.5, 20.0)
    assert train.train(config("equal")).step == 20
    monkeypatch.undo()
    on_dev(monkeypatch, 50.0, 49.0, 30.0, 49.5, 20.0)
    found = train.train(config("run"))
    assert found.step == 0 and finished(found.folder)
    first = train.starting_model(found.config, open_corpus(found.config)).params
    assert all((found.model.params[name] == first[name]).all() for name in first)
    assert ("did not improve them: there are too few pairs or steps. Start from another run: "
            "--init") in summary(found)[0]
    monkeypatch.undo()
    on_dev(monkeypatch, 50.0, 49.0, 30.0, 49.5, 20.0)
    again = train.train(config("again", ["--init", str(found.folder),
                                        "--cache", str(tmp_path / "cache")]))
    assert again.step == 0 and f"improve them: {found.folder} was trained on the same pairs." in (
        summary(again)[0])


@pytest.mark.parametrize("name", ["chat", "transformer"])
def test_half_stays_half_in_memory_and_gives_the_vectors_of_the_same_weights_in_32_bits(
        config, name):
    run = train.train(config("half", [*OPTIONS[name], "--half", "true"]))
    again = train.resume(run.folder)                          # finished: nothing changes
    assert again.weights_checksum == run.weights_checksum
    stored = run.model.params
    wide = {name: p.astype(np.float32) for name, p in stored.items()}
    whole = run._replace(model=run.model._replace(params=wide))
    assert stored[TABLE].dtype == np.float16
    texts = ["fudazi vobamu setodi", "How old are you?", "", "fudazi vobamu fudazi vobamu"] * 30
    for of_texts in (lambda run: encoder_of(run).encode(texts),
                     lambda run: encoder_of(run).encode(texts, as_responses=True)):
        np.testing.assert_array_equal(of_texts(run), of_texts(whole))
    begun = initial_model(run.config, open_corpus(run.config), run.model).params
    for name, p in begun.items():
        assert p.dtype == np.float32 and (p == wide[name]).all()


@pytest.mark.parametrize("task, best", [("conversation", 1), ("multitask", 2)])
def test_what_multitask_and_nli_call_best_counts_their_own_task(task, best):
    records = [{"step": 0, "dev_p1": 30.0, "nli": 30.0}, {"step": 1, "dev_p1": 40.0, "nli": 50.0},
               {"step": 2, "dev_p1": 35.0, "nli": 60.0}, {"step": 3, "dev_p1": 10.0, "nli": 61.0}]
    scores = scores_on_dev(Config(task=task), records)
    assert max(scores, key=scores.get) == best


# ---------------------------------------------------------------- unsound losses

@pytest.mark.parametrize("loss, call, kept", [(np.nan, 16, 10), (np.inf, 16, 10), (1e6, 6, 0)])
def test_a_loss_that_is_not_sound_stops_the_run(config, monkeypatch, tmp_path, loss, call, kept):
    wrap_step(monkeypatch, lambda step: loss if step == call else None)
    with pytest.raises(UserError, match=f"step {kept + 10}: the loss is .* --optim.learning_rate"):
        train.train(config("run"))
    assert describe(newest(tmp_path / "run")).step == kept
    assert not kept or load_run(tmp_path / "run").step == kept    # 0: no checkpoint yet


def test_an_update_that_overflows_after_the_last_loss_leaves_no_checkpoint(config, tmp_path):
    options = ["--optim.optimizer", "sgd", "--optim.learning_rate", "1e38",
               "--optim.table_learning_rate", "1e38", "--steps", "1", "--model.scale", "1",
               "--model.unit_response", "false"]
    with pytest.raises(FloatingPointError, match="are not finite"), np.errstate(all="ignore"):
        train.train(config("run", options))
    assert not (tmp_path / "run" / MODEL).exists()


# ---------------------------------------------------------------- disks

def save(folder, step, size):
    """Save a checkpoint, newest and best, with one array, which contains only its step."""
    model = Model({"weight": np.full(size, step, np.float32)}, Config().model, 0)
    save_run(Run(folder / TRAINING, Config(), Vocabulary([], []), model, step))
    keep_as_best(folder)


def test_a_full_disk_keeps_the_last_good_checkpoint(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    save(tmp_path, 1, 150_000)                                # 600 kB
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))
        with pytest.raises(UserError, match="training.safetensors: cannot be written"):
            save(tmp_path, 2, 150_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    for file in (MODEL, TRAINING):
        weight = np.frombuffer(weights(tmp_path, file)["weight"], np.float32)
        assert weight.tolist() == [1] * 150_000
    assert len(list(tmp_path.iterdir())) == 2
