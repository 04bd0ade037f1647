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
from ..core.model import ENCODERS
from ..evaluation import response, sts
from ..evaluation.command import parser_of
from ..evaluation.metrics import r_with_interval, with_interval
from ..inference.sentence_encoder import encoder_of
from ..training.run import load_run
from .model_card import limits, training_data, what_it_is

PACKAGE = Path(__file__).parents[1]
SETTINGS = ("preset", "model.encoder", "task", "seed", "steps", "optim.optimizer",
            "optim.batch_size", "model.embedding_dim", "model.layers")
MODULES = [{"idx": 0, "name": "0", "path": "", "type": "torch_module.TorchModule"}]


def open_exported(folder):
    """The SentenceEncoder of a folder's own model.py: what is measured is what its users get."""
    sys.dont_write_bytecode = True                            # into the folder
    return runpy.run_path(str(Path(folder, "model.py")))["SentenceEncoder"](folder)


def write_model(folder, encoder, half):
    """Write all files but the card. The response network and NLI's classifier are left out."""
    config = encoder.model.config
    arrays = {name: array.astype(np.float16 if half else np.float32)
              for name, array in encoder.model.params.items() if name.startswith("encoder.")}
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


def results(encoder, folder, pairs, test):
    """The run and the exported folder, measured alike: header, rows.

    encoder: the run's; pairs: an Sts; test: a TestSet, or None
    """
    rows = []
    for name, model in (("the run", encoder), ("this folder", open_exported(folder))):
        rows.append([name, r_with_interval(sts.cosines(model.encode, pairs), pairs.labels)])
        if test:
            u, v = map(model.embed, response.sides(test.corpus.test, test.pairs))
            ranks = response.ranks_of_truth(u, v, test.candidates)
            rows[-1].append(with_interval(response.precision(ranks, 1)))
    return ["", "STS", "P@1"][:len(rows[0])], rows


def settings_of(run, options):
    """The settings that the card shows, by the names of the training's options, as rows."""
    values = flat(dataclasses.asdict(run.config))
    names = [*SETTINGS, *(f"model.{name}"
                          for name in ENCODERS[run.config.model.encoder].settings)]
    rows = f"{run.vocabulary.size:,} for words, {run.config.bigram_rows:,} for bigrams"
    return [*([f"`{name}`", values[name]] for name in names),
            ["step kept, the best on held-out pairs", run.step],
            ["rows of the table", rows],
            ["stored in", "half precision" if options.half else "float32"],
            ["with a matrix that was tuned on STS train", options.tuned]]


def card(run, options, measured, test, pairs):
    """The model card, README.md of the folder. measured: of `results`; test: a TestSet or None."""
    name = options.out.resolve().name
    of_test = "; not measured, because the pairs were not at hand"
    if test:
        of_test = f", for {len(test.pairs):,} messages that were held out from training"
    own_set = f"{len(pairs.labels)} pairs of our own. {sts.OWN_NOTE}"
    return Path(PACKAGE, "export/card.md").read_text(encoding="utf-8").format(
        title=html.escape(name), quoted=json.dumps(name, ensure_ascii=False),
        what_it_is=what_it_is(run.config),
        data=training_data(run, test and test.corpus.train.pairs), measured=of_test,
        pairs="STS Benchmark dev." if options.data else own_set,
        settings=markdown(["setting", ""], settings_of(run, options)), results=markdown(*measured),
        limits="\n".join(f"- {line}" for line in limits(run.config)))


@errors_in_one_line()
def main(argv=None):
    """The command: write the folder, measure it beside the run, describe it in its card."""
    parser = parser_of("export", __doc__, data="folder with the STS Benchmark's sts-dev.csv, or "
                       "with stsbenchmark/; without it the small own set is measured")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR",
                        help="the folder to write; it must be new or empty")
    parser.add_argument("--half", action="store_true", help="store numbers in half precision")
    parser.add_argument("--tuned", action="store_true", help="with the matrix that `tune` learned")
    options = parser.parse_intermixed_args(argv)
    pairs = sts.read_splits(options.data, "dev")[0] if options.data else sts.read(sts.OWN)
    run = load_run(options.run)
    encoder = encoder_of(run, options.tuned)
    with new_folder(options.out, "choose another folder with --out") as folder:
        write_model(folder, encoder, options.half)
        test = None
        try:
            test = response.read(response.find(None, run)["test"])
        except UserError as error:
            print(f"P@1 is not measured: {error}\n")
        measured = results(encoder, folder, pairs, test)
        write_text(folder / "README.md", card(run, options, measured, test, pairs))
    print(f"{table(*measured)}\n\n{options.out}/README.md says how to use the folder, and what the "
          "table means. It names no license yet: choose one before you publish it.")


if __name__ == "__main__":
    main()
