"""A run exported: its vectors from NumPy alone and in sentence_transformers, sizes, refusals."""

import ast
import dataclasses

import numpy as np
import pytest

import convsim_mini
from convsim_mini import train
from convsim_mini.core.model import TABLE
from convsim_mini.export import __main__ as export
from convsim_mini.evaluation import __main__ as evaluation, sts
from convsim_mini.evaluation.results import cell
from convsim_mini.training.run import load_run, save_tuned

from conftest import command
from numpy_alone import with_numpy_alone

SENTENCES = ["fudazi vobamu setodi", "How old are you?", "", "don't “quote” 1,000.50 \U0001f600",
             "it 's -lrb- done -rrb- https://a.b/c", "tufome", "fudazi vobamu setodi " * 30]


def in_16_bits(run, **options):
    """The run's SentenceEncoder with its weights as a folder keeps them."""
    encoder = convsim_mini.load(run, **options)
    params = {name: array.astype(np.float16).astype(np.float32)
              for name, array in encoder.model.params.items()}
    encoder.model = encoder.model._replace(params=params)
    return encoder


@pytest.fixture(scope="module")
def exported(trained, tmp_path_factory):
    """The run, exported as it is: folder, Finished."""
    folder = tmp_path_factory.mktemp("exported") / "a.model"
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        done = command("export", trained[0], "--out", folder, cwd=folder.parent)
    assert (done.returncode, done.stderr) == (0, "")
    assert not [*folder.rglob("__pycache__")]                 # they would name folders here
    assert [path.name for path in folder.parent.iterdir()] == ["a.model"]    # nothing beside it
    return folder, done


def test_numpy_alone_gives_the_vectors_of_the_run(trained, exported, tmp_path):
    vectors = with_numpy_alone(exported[0], SENTENCES, tmp_path)
    expected = in_16_bits(trained[0]).encode(SENTENCES)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, expected, rtol=0, atol=1e-6)
    # rows and a matrix are multiplied, and each of both is off by 2⁻¹¹ of its numbers at most
    of_run = convsim_mini.load(trained[0]).encode(SENTENCES)
    np.testing.assert_allclose(vectors @ vectors.T, of_run @ of_run.T, rtol=0, atol=2**-10)
    stored = np.load(exported[0] / "model.npz")
    kinds = {name: array.dtype for name, array in stored.items()}
    assert kinds.pop("bigrams") == np.int64 and {*kinds.values()} == {np.dtype(np.float16)}
    assert export.open_exported(exported[0]).model.params[TABLE].dtype == np.float16


def test_a_tuned_matrix_is_exported(run_copy, tmp_path):
    save_tuned(load_run(run_copy), np.random.default_rng(0).standard_normal((16, 16)))
    export.main([str(run_copy), "--tuned", "--out", str(tmp_path / "out")])
    vectors = with_numpy_alone(tmp_path / "out", SENTENCES, tmp_path)
    np.testing.assert_allclose(vectors, in_16_bits(run_copy, tuned=True).encode(SENTENCES), rtol=0,
                               atol=1e-6)
    assert np.abs(vectors - convsim_mini.load(run_copy).encode(SENTENCES)).max() > 0.01


def test_what_is_printed_and_what_the_card_says(trained, exported):
    folder, done = exported
    run, card = load_run(trained[0]), (folder / "README.md").read_text()
    own = sts.read(sts.OWN)
    of_run, of_folder = (cell(sts.figures(own, np.vecdot(*sts.unit_vectors(
        one(trained[0]).encode, own)))["r"]) for one in (convsim_mini.load, in_16_bits))
    assert f"100: the run {of_run}, the folder {of_folder}\n" in done.stdout
    assert f"interval: {of_folder} (the run itself: {of_run})" in card
    assert "a vector of 16 dimensions." in card
    assert f"It was trained on pairs.tsv, in {run.step} steps." in card
    assert "It is a DAN\ntrained" in card
    assert card.startswith("---\nlibrary_name: sentence-transformers\npipeline_tag: sentence-sim")
    assert "\n# license: none is chosen yet" in card and "{" not in card
    assert str(trained[0]) not in card and "NumPy computes the" in card


def test_no_name_becomes_code_and_each_task_names_its_data(run_copy, tmp_path):
    run, name = load_run(run_copy), 'ex", x=open("y"), z="`<b>'
    for nli, says in ((None, "gone.tsv"), ("DIR", "gone.tsv, SNLI")):
        gone = dataclasses.replace(run.config, pairs=[str(tmp_path / "gone.tsv")], nli=nli)
        card = export.card(run._replace(config=gone), tmp_path / name, "", 16)
        assert f"It was trained on {says}, in" in card and str(tmp_path) not in card
    code = ast.parse(card.split("```python\n")[1].split("```")[0])
    assert code.body[1].value.args[0].value == name


def test_a_table_in_8_bits_gives_nearly_the_same_vectors(trained, tmp_path, capsys):
    rows = np.array([[1e-4, -5e-5], [0, 0]], np.float16)      # of a run that was saved in 16 bits
    assert export.in_8_bits(rows)["row"].tolist() == [[127, -64], [0, 0]]
    export.main([str(trained[0]), "--out", str(tmp_path / "small"), "--int8"])
    capsys.readouterr()
    small, encoder = export.open_exported(tmp_path / "small"), convsim_mini.load(trained[0])
    table, (scale, row) = encoder.model.params[TABLE], map(small.model.params[TABLE].__getitem__,
                                                           ("scale", "row"))
    assert row.dtype == np.int8 and (np.abs(row).max(axis=1) == 127).all()
    assert (np.abs(scale[:, None] * row - table) <= 0.5001 * scale[:, None]).all()
    cosines = np.vecdot(small.encode(SENTENCES), encoder.encode(SENTENCES))
    assert 0.99 < cosines.min() < 1 - 1e-6    # near, but not the same
    assert "stored in 8 bits" in (tmp_path / "small" / "README.md").read_text("utf-8")


# ---------------------------------------------------------------- Transformers

# a high rate, for after five steps nothing may be near its first value
TINY = ("--encoder transformer --model.transformer_layers 2 --model.heads 2 --model.hidden 24 "
        "--model.max_tokens 8 --optim.learning_rate 0.01 --steps 5 --evaluations 1").split()
VARIANTS = {"bag": [], "alone": ["--model.bag", "false", "--model.layers", 12, 16,
                                 "--model.encoder_bias", "true"]}


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_transformer_with_numpy_alone_gives_the_vectors_of_the_run(
        arguments, tmp_path, capsys, variant):
    run, folder = tmp_path / "run", tmp_path / "a.model"
    train.main([*map(str, [*arguments, *TINY, "--run", run, *VARIANTS[variant]])])
    evaluation.main([str(run), "--on", "response", "sts", "cqa"])
    told = capsys.readouterr().out
    assert "P@10" in told and "STS built-in set" in told and "not measured" not in told
    export.main([str(run), "--out", str(folder)])
    encoder = in_16_bits(run)
    many = ["fudazi vobamu setodi tufome a"] * 1_000 + SENTENCES    # more words than go at once
    vectors = with_numpy_alone(folder, many, tmp_path)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, encoder.encode(many), rtol=0, atol=1e-3)
    card = (folder / "README.md").read_text()
    assert "It is a Transformer\ntrained by `convsim_mini`" in card and "{" not in card


# ---------------------------------------------------------------- in sentence_transformers

@pytest.fixture(scope="module")
def open_offline(tmp_path_factory):
    """A function that opens a folder in sentence_transformers, without a network."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("HF_HOME", str(tmp_path_factory.mktemp("hub")))
        library = pytest.importorskip("sentence_transformers")
        yield lambda folder: library.SentenceTransformer(str(folder), trust_remote_code=True,
                                                         device="cpu")


@pytest.fixture(scope="module")
def opened(exported, open_offline):
    """The folder in sentence_transformers."""
    return open_offline(exported[0])


def test_sentence_transformers_gives_the_vectors_of_the_run_and_saves_what_it_opened(
        trained, opened, open_offline, tmp_path):
    expected = in_16_bits(trained[0]).encode(SENTENCES)
    vectors = opened.encode(SENTENCES, batch_size=3)
    np.testing.assert_allclose(vectors, expected, rtol=0, atol=1e-6)
    np.testing.assert_allclose(opened.similarity(vectors, vectors), expected @ expected.T,
                               rtol=0, atol=1e-5)
    with_prompt = opened.encode(["old are you?"], prompt="How ")
    np.testing.assert_allclose(with_prompt, expected[1:2], rtol=0, atol=1e-6)
    opened.save(str(tmp_path / "again"))
    again = open_offline(tmp_path / "again").encode(SENTENCES, batch_size=3)
    np.testing.assert_array_equal(again, vectors)


def test_a_trainer_says_that_it_cannot_be_trained(opened, tmp_path):
    library, losses, datasets, _ = map(pytest.importorskip, (
        "sentence_transformers", "sentence_transformers.losses", "datasets", "accelerate"))
    pairs = datasets.Dataset.from_dict({"anchor": ["a", "b"], "positive": ["c", "d"]})
    given = library.SentenceTransformerTrainingArguments(str(tmp_path), report_to=[], use_cpu=True)
    trainer = library.SentenceTransformerTrainer(
        opened, given, train_dataset=pairs,
        loss=losses.MultipleNegativesRankingLoss(opened))
    with pytest.raises(TypeError, match="a.model: cannot be trained, for NumPy computes its"):
        trainer.train()
    with pytest.raises(TypeError, match="str"):
        opened.encode({"a": 1})
