"""Export a run as a folder for sentence_transformers, or for NumPy and regex alone.

    python -m convsim_mini.export RUN --out DIR

The folder holds code, weights, the vocabulary and a model card. Its vectors are those of `encode`.
A Transformer's folder also holds transformer.json, the settings that its forward pass needs.
"""

import json
import re
import runpy
import sys
from functools import partial
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from .cli import UserError, errors_in_one_line, progress
from .evaluation import response, sts
from .evaluation.command import parser_of
from .evaluation.metrics import pearson, pearson_interval
from .files import new_folder, replace_file, write_text
from .model.input_response import embed
from .report.model_card import limits, training_data, what_it_is
from .run import load_matrix, load_run
from .sentence_encoder import encoder_of
from .tables import markdown, table

PACKAGE = Path(__file__).parent
RELATIVE_IMPORT = re.compile(r"^from \.\S+ import .*\n", re.MULTILINE)
NUMPY_ALONE = "\n\ndef array_module(x):\n    return np    # in the package it may be CuPy\n\n\n"
TRANSFORMER = ("transformer_layers", "heads", "pre_norm", "bag", "max_tokens")    # its settings
MODULES = [{"idx": 0, "name": "0", "path": "", "type": "torch_module.TorchModule"}]


def standalone(kind):
    """The text of model.py of a "dan" or a "transformer": exported/ files and what they import."""
    files = ("exported/model.py", "exported/transformer.py", "data/packed.py", "data/text.py")
    model, transformer, packed, text = (
        RELATIVE_IMPORT.sub("", Path(PACKAGE, name).read_text(encoding="utf-8")) for name in files)
    more = f"\n\n{transformer}" if kind == "transformer" else ""
    return "".join([model, more, "\n\n", packed, NUMPY_ALONE, text])


def open_exported(folder):
    """The SentenceEncoder of a folder's own model.py: what is measured is what its users get."""
    return runpy.run_path(str(Path(folder, "model.py")))["SentenceEncoder"](folder)


def write_model(folder, encoder, half, bigrams):
    """Write all files but the card. encoder: of `encoder_of`; bigrams: whether to keep their rows.

    The response network and NLI's classifier are left out.
    """
    config = encoder.model.config
    arrays = {name: array for name, array in encoder.model.params.items()
              if name.startswith("encoder.")}
    if not bigrams:
        name = "encoder.embedding.weight"
        arrays[name] = arrays[name][:encoder.model.word_rows]
    kind = np.float16 if half else np.float32
    arrays = {name: np.ascontiguousarray(array, kind) for name, array in arrays.items()}
    replace_file(folder / "model.safetensors", lambda temporary: save_file(arrays, temporary))
    write_text(folder / "vocabulary.json", json.dumps(encoder.vocabulary.to_dict()))
    write_text(folder / "modules.json", json.dumps(MODULES, indent=2) + "\n")
    if config.encoder == "transformer":
        settings = {name: getattr(config, name) for name in TRANSFORMER}
        write_text(folder / "transformer.json", json.dumps(settings, indent=2) + "\n")
    write_text(folder / "model.py", standalone(config.encoder))
    write_text(folder / "torch_module.py",
               Path(PACKAGE, "exported/torch_module.py").read_text(encoding="utf-8"))


def megabytes(folder):
    """The size of a folder's files, as text."""
    return f"{sum(path.stat().st_size for path in Path(folder).iterdir()) / 1e6:,.1f}"


def test_choices(run):
    """The Choices of the run's test split; or None, where its corpus is not in reach."""
    try:
        return response.read(response.find(None, run)["test"])
    except UserError as error:
        print(f"P@1 is not measured: {error}\n")
        return None


def correlation(encode, pairs):
    """Pearson's r × 100 of the cosine on an Sts, with its interval, as text."""
    u, v = (encode(side).astype(np.float64) for side in (pairs.sentences1, pairs.sentences2))
    cosines = (u * v).sum(axis=1)
    r, (low, high) = pearson(cosines, pairs.labels), pearson_interval(cosines, pairs.labels)
    return f"{100 * r:.1f} [{100 * low:.1f}, {100 * high:.1f}]"


def precision(choices, encode, reply=lambda v: v):
    """P@1 on Choices, with its interval, as text, or a dash without any.

    encode: Packed of n sentences → (n, e); reply: what to do with the replies' vectors
    """
    if choices is None:
        return "–"
    u, v = (encode(choices.corpus.test.sentences(2 * choices.pairs + side)) for side in (0, 1))
    ranks = response.ranks_of_truth(u, reply(v), choices.candidates)
    return "{:.1f} [{:.1f}, {:.1f}]".format(*response.precision(ranks, 1))


def results(run, encoder, folder, pairs, choices):
    """The run and the exported folder, measured alike: header, rows."""
    exported = open_exported(folder)
    rows = [("the run", run.folder, encoder.encode, partial(embed, encoder.model)),
            ("this folder", folder, exported.encode, exported.embed),
            ("the run with its response network", run.folder, encoder.encode,
             partial(embed, run.model), partial(response.respond, run.model))]
    return ["", "MB", "STS", "P@1"], [
        [name, megabytes(where), correlation(of_texts, pairs), precision(choices, *of_packed)]
        for name, where, of_texts, *of_packed in progress(rows, "measuring")]


def widths(model):
    """The widths of a ModelConfig, in words."""
    last = ", ".join(map(str, model.layers))
    if model.encoder == "dan":
        return f"{model.embedding_dim}, then {last}"
    return (f"{model.embedding_dim} in {model.transformer_layers} "
            f"{'pre' if model.pre_norm else 'post'}-norm layers with {model.heads} heads and "
            f"{model.hidden:,} hidden units{', a bag beside them' if model.bag else ''}, "
            f"then {last}")


def settings_of(run, options):
    """The settings that the card shows, as rows."""
    config, bigrams = run.config, run.config.bigram_rows
    untuned = "none" if load_matrix(run, "all_but_the_top") is None else "all but the top"
    return [["preset, task, seed", f"{config.preset}, {config.task}, {config.seed}"],
            ["steps", f"{run.step:,} of {config.steps:,}, the best on held-out pairs"],
            ["optimizer", f"{config.optim.optimizer}, batches of {config.optim.batch_size:,}"],
            ["rows of the table", f"{run.vocabulary.size:,} for words, " + (
                f"none of {bigrams:,} for bigrams" if options.no_bigrams
                else f"{bigrams:,} for bigrams")],
            ["widths", widths(config.model)],
            ["stored in", "half precision" if options.half else "float32"],
            ["matrix on top", "tuned on STS train" if options.tuned else untuned]]


def card(run, options, measured, choices, pairs):
    """The model card, README.md of the folder."""
    config, pairs_to_train_on = run.config, choices and choices.corpus.train.pairs
    return Path(PACKAGE, "exported/card.md").read_text(encoding="utf-8").format(
        name=Path(options.out).resolve().name, what_it_is=what_it_is(config),
        data=training_data(run, pairs_to_train_on),
        settings=markdown(["setting", ""], settings_of(run, options)),
        results=markdown(*measured),
        measured=(f", for {len(choices.pairs):,} messages that were held out from training"
                  if choices else "; not measured, because the pairs were not at hand"),
        pairs="STS Benchmark dev" if options.data else f"{len(pairs.labels)} pairs of our own",
        note="" if options.data else f" {sts.OWN_NOTE}",
        limits="\n".join(f"- {line}" for line in limits(config, not options.no_bigrams)))


def parse_options(argv):
    """The command's options."""
    parser = parser_of("export", __doc__, data="folder with the STS Benchmark's sts-dev.csv, or "
                       "with stsbenchmark/; without it the small own set is measured")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR",
                        help="the folder to write; it must be new or empty")
    parser.add_argument("--half", action="store_true", help="store numbers in half precision")
    parser.add_argument("--no_bigrams", action="store_true",
                        help="leave out the table's rows for bigrams")
    parser.add_argument("--tuned", action="store_true", help="with the matrix that `tune` learned")
    return parser.parse_intermixed_args(argv)


@errors_in_one_line()
def main(argv=None):
    """The command: write the folder, measure it beside the run, describe it in its card."""
    options = parse_options(sys.argv[1:] if argv is None else argv)
    pairs = sts.read_splits(options.data, "dev")[0] if options.data else sts.read(sts.OWN)
    run = load_run(options.run)
    if options.no_bigrams and not run.config.bigram_rows:
        raise UserError(f"--no_bigrams: {options.run} is a Transformer without a bag, whose table "
                        "has no rows for bigrams; leave the option out")
    encoder = encoder_of(run, options.tuned)
    with new_folder(options.out, "choose another folder with --out") as folder:
        write_model(folder, encoder, options.half, not options.no_bigrams)
        choices = test_choices(run)
        measured = results(run, encoder, folder, pairs, choices)
        write_text(folder / "README.md", card(run, options, measured, choices, pairs))
    print(f"{table(*measured)}\n\n{options.out}/README.md says how to use the folder, and what the "
          "table means. It names no license yet: choose one before you publish it.")


if __name__ == "__main__":
    main()
