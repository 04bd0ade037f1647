"""Export a run as a folder for sentence_transformers, or for NumPy and regex alone.

    python -m convsim_mini.export RUN --out DIR

The folder holds the files of core/ as they are, the weights, settings with the vocabulary, a short
model.py and a model card. It gives the vectors that `encode` gives.
"""

import dataclasses
import html
import json
import runpy
import sys
from pathlib import Path

import numpy as np

from ..common.cli import UserError, errors_in_one_line
from ..common.files import new_folder, write_text
from ..common.tables import markdown, table
from ..config import flat
from ..core.model import ENCODERS, TABLE
from ..evaluation import response, sts
from ..evaluation.command import parser_of
from ..evaluation.metrics import r_with_interval, with_interval
from ..inference.sentence_encoder import encoder_of
from ..training.run import load_matrix, load_run
from .model_card import limits, training_data, what_it_is

PACKAGE = Path(__file__).parents[1]
SETTINGS = ("preset", "model.encoder", "task", "seed", "steps", "optim.optimizer",
            "optim.batch_size", "model.embedding_dim", "model.layers")
MODULES = [{"idx": 0, "name": "0", "path": "", "type": "torch_module.TorchModule"}]


def open_exported(folder):
    """The SentenceEncoder of a folder's own model.py: what is measured is what its users get."""
    sys.dont_write_bytecode = True                            # into the folder
    return runpy.run_path(str(Path(folder, "model.py")))["SentenceEncoder"](folder)


def write_model(folder, encoder, half, bigrams):
    """Write all files but the card. encoder: of `encoder_of`; bigrams: whether to keep their rows.

    The response network and NLI's classifier are left out.
    """
    config = encoder.model.config
    arrays = {name: array.astype(np.float16 if half else np.float32)
              for name, array in encoder.model.params.items() if name.startswith("encoder.")}
    if not bigrams:                                           # all of them share a row of zeros
        arrays[TABLE] = arrays[TABLE][:encoder.model.word_rows + 1].copy()
        arrays[TABLE][-1] = 0
    np.savez(folder / "model.npz", **arrays)
    code = Path(sys.modules[ENCODERS[config.encoder].forward.__module__].__file__)
    settings = {"module": code.stem, "vocabulary": encoder.vocabulary.to_dict(),
                "model": dataclasses.asdict(config) | {"word_weight": encoder.word_weight}}
    write_text(folder / "settings.json", json.dumps(settings))
    write_text(folder / "modules.json", json.dumps(MODULES, indent=2) + "\n")
    core = folder / "convsim_mini" / "core"
    core.mkdir(parents=True)
    write_text(core.parent / "__init__.py", "")
    for path in (code, *Path(PACKAGE, "core").glob("*.py")):
        write_text(core / path.name, path.read_text(encoding="utf-8"))
    for name in ("model.py", "torch_module.py"):
        write_text(folder / name, Path(PACKAGE, "export", name).read_text(encoding="utf-8"))


def results(run, encoder, folder, pairs, test):
    """The run and the exported folder, measured alike: header, rows.

    pairs: an Sts; test: a TestSet, or None
    """
    header, rows = ["", "MB", "STS"], []
    exported = open_exported(folder)
    for name, where, model in (("the run", run.folder, encoder), ("this folder", folder, exported)):
        size = sum(path.stat().st_size for path in where.rglob("*"))
        r = r_with_interval(sts.cosines(model.encode, pairs), pairs.labels)
        rows.append([name, f"{size / 1e6:,.1f}", r])
    rows.append(["the run with its response network", *rows[0][1:]])
    if test:
        header.append("P@1")
        sides = response.sides(test.corpus.test, test.pairs)
        vectors = [map(encoder.embed, sides), map(exported.embed, sides),
                   response.vectors(run.model, test.corpus.test, test.pairs)]
        for row, (u, v) in zip(rows, vectors):
            ranks = response.ranks_of_truth(u, v, test.candidates)
            row.append(with_interval(response.precision(ranks, 1)))
    return header, rows


def settings_of(run, options):
    """The settings that the card shows, by the names of the training's options, as rows."""
    values = flat(dataclasses.asdict(run.config))
    names = [*SETTINGS]
    names += [f"model.{name}" for name in ENCODERS[run.config.model.encoder].settings]
    matrix = "none" if load_matrix(run, "all_but_the_top") is None else "all but the top"
    bigrams = 0 if options.no_bigrams else run.config.bigram_rows
    return [*([f"`{name}`", values[name]] for name in names),
            ["step kept, the best on held-out pairs", run.step],
            ["rows of the table", f"{run.vocabulary.size:,} for words, {bigrams:,} for bigrams"],
            ["stored in", "half precision" if options.half else "float32"],
            ["matrix on top", "tuned on STS train" if options.tuned else matrix]]


def card(run, options, measured, test, pairs):
    """The model card, README.md of the folder. measured: of `results`; test: a TestSet or None."""
    name = options.out.resolve().name
    of_test, to_train_on = "; not measured, because the pairs were not at hand", None
    if test:
        of_test = f", for {len(test.pairs):,} messages that were held out from training"
        to_train_on = test.corpus.train.pairs
    own_set = f"{len(pairs.labels)} pairs of our own. {sts.OWN_NOTE}"
    return Path(PACKAGE, "export/card.md").read_text(encoding="utf-8").format(
        title=html.escape(name), quoted=json.dumps(name, ensure_ascii=False),
        what_it_is=what_it_is(run.config),
        data=training_data(run, to_train_on), measured=of_test,
        pairs="STS Benchmark dev." if options.data else own_set,
        settings=markdown(["setting", ""], settings_of(run, options)), results=markdown(*measured),
        limits="\n".join(f"- {line}" for line in limits(run.config, not options.no_bigrams)))


@errors_in_one_line()
def main(argv=None):
    """The command: write the folder, measure it beside the run, describe it in its card."""
    parser = parser_of("export", __doc__, data="folder with the STS Benchmark's sts-dev.csv, or "
                       "with stsbenchmark/; without it the small own set is measured")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR",
                        help="the folder to write; it must be new or empty")
    parser.add_argument("--half", action="store_true", help="store numbers in half precision")
    parser.add_argument("--no_bigrams", action="store_true",
                        help="leave out the table's rows for bigrams")
    parser.add_argument("--tuned", action="store_true", help="with the matrix that `tune` learned")
    options = parser.parse_intermixed_args(argv)
    pairs = sts.read_splits(options.data, "dev")[0] if options.data else sts.read(sts.OWN)
    run = load_run(options.run)
    if options.no_bigrams and not run.config.bigram_rows:
        raise UserError(f"--no_bigrams: the table of {options.run} has no rows for bigrams; leave "
                        "the option out")
    encoder = encoder_of(run, options.tuned)
    with new_folder(options.out, "choose another folder with --out") as folder:
        write_model(folder, encoder, options.half, not options.no_bigrams)
        test = None
        try:
            test = response.read(response.find(None, run)["test"])
        except UserError as error:
            print(f"P@1 is not measured: {error}\n")
        measured = results(run, encoder, folder, pairs, test)
        write_text(folder / "README.md", card(run, options, measured, test, pairs))
    print(f"{table(*measured)}\n\n{options.out}/README.md says how to use the folder, and what the "
          "table means. It names no license yet: choose one before you publish it.")


if __name__ == "__main__":
    main()
