"""Export a run as a folder for sentence_transformers, or for NumPy, SciPy and regex.

    python -m convsim_mini.export RUN --out DIR

The folder holds copies of core/'s files, the weights, settings with the vocabulary, a short
model.py and a model card. The vectors are those of `encode`, but from weights in 16 bits; with
--int8, the table has 8.
"""

import dataclasses
import json
import re
import runpy
import sys
from pathlib import Path

import numpy as np

from ..common.files import new_folder, write_text
from ..common.cli import errors_in_one_line, parser_of, path_of
from ..config import TITLES
from ..core.model import ENCODERS, TABLE
from ..evaluation import sts
from ..evaluation.results import cell
from ..inference.sentence_encoder import encoder_of
from ..training.run import in_16_bits, load_run

PACKAGE = Path(__file__).parents[1]
MODULES = [{"idx": 0, "name": "0", "path": "", "type": "torch_module.TorchModule"}]


def open_exported(folder):
    """The encoder that a folder's own model.py loads, so that we measure what its users get."""
    sys.dont_write_bytecode = True                            # into the folder
    return runpy.run_path(str(Path(folder, "model.py")))["load"](folder)


def write_model(folder, encoder, int8=False):
    """Write all files except the card. The response network and NLI's classifier are left out."""
    config = encoder.model.config
    arrays = {name: in_16_bits(array) for name, array in encoder.model.params.items()
              if name.startswith("encoder.")}
    if int8:
        arrays[TABLE] = in_8_bits(encoder.model.params[TABLE])
    np.savez(folder / "model.npz", bigrams=encoder.model.bigrams, **arrays)
    code = Path(sys.modules[ENCODERS[config.encoder].forward.__module__].__file__)
    names = {code: "own_encoder.py"}                          # unless it is one of core's
    names |= {path: path.name for path in Path(PACKAGE, "core").glob("*.py")}
    (folder / "core").mkdir()
    for path, name in names.items():                          # an encoder of one's own imports core
        text = re.sub(r"^from convsim_mini\.core\.?", "from .", path.read_text(encoding="utf-8"),
                      flags=re.MULTILINE)
        write_text(folder / "core" / name, text)
    settings = {"module": Path(names[code]).stem, "model": dataclasses.asdict(config),
                "vocabulary": dataclasses.asdict(encoder.vocabulary)}
    write_text(folder / "settings.json", json.dumps(settings))
    write_text(folder / "modules.json", json.dumps(MODULES, indent=2))
    for name in ("model.py", "torch_module.py"):
        write_text(folder / name, Path(PACKAGE, "export", name).read_text(encoding="utf-8"))


def in_8_bits(table):
    """A table (R, d) as R pairs of a scale and a row in int8, as core's `in_32_bits` reads it."""
    table = table.astype(np.float32)                          # with `half`, it is float16
    pairs = np.empty(len(table), [("scale", np.float32), ("row", np.int8, table.shape[1:])])
    pairs["scale"] = np.maximum(np.abs(table).max(axis=1), 1e-30) / 127
    pairs["row"] = np.rint(table / pairs["scale"][:, None])
    return pairs


def card(run, folder, measured, bits):
    """The model card, the folder's README.md. measured: r of the vectors; bits: of the table"""
    config, name = run.config, folder.resolve().name
    data = [Path(path).name for path in config.pairs] or ["chitchat-dataset"]
    data += ["SNLI"] if config.nli else []
    return Path(PACKAGE, "export/card.md").read_text(encoding="utf-8").format(
        title=name, quoted=json.dumps(name, ensure_ascii=False), numbers=config.model.layers[-1],
        encoder=TITLES.get(config.model.encoder, config.model.encoder), data=", ".join(data),
        steps=run.step, measured=measured, note=sts.OWN_NOTE, bits=bits)


@errors_in_one_line()
def main(argv=None):
    """The command: write the folder, measure it and the run, and write its card."""
    parser = parser_of("export", __doc__)
    parser.add_argument("--out", type=path_of, required=True, metavar="DIR",
                        help="the folder to write; it must be new or empty")
    parser.add_argument("--tuned", action="store_true", help="use the matrix that `tune` learned")
    parser.add_argument("--int8", action="store_true",
                        help="store the table in 8 bits, with a scale for each row: half the size")
    options = parser.parse_intermixed_args(argv)
    run, pairs = load_run(options.run), sts.read(sts.OWN)
    encoder = encoder_of(run, options.tuned)
    with new_folder(options.out, "choose another folder with --out") as folder:
        write_model(folder, encoder, options.int8)
        cosines = (np.vecdot(*sts.unit_vectors(one.encode, pairs))
                   for one in (encoder, open_exported(folder)))
        of_run, of_folder = (cell(sts.figures(pairs, some)["r"]) for some in cosines)
        measured, bits = f"{of_folder} (the run itself: {of_run})", 8 if options.int8 else 16
        write_text(folder / "README.md", card(run, options.out, measured, bits))
    print(f"STS built-in set, r × 100: the run {of_run}, the folder {of_folder}\n"
          f"{options.out}/README.md says how to use the folder. It names no license yet.")


if __name__ == "__main__":
    main()
