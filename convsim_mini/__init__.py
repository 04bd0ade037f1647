"""Sentence embeddings from conversations (Yang et al. 2018), every gradient by hand in NumPy/CuPy.

An encoder learns to pick the true response to an input among the responses to other inputs. So it
learns what sentences mean: two sentences mean the same if the same replies would fit both.

minimal.py shows the whole idea in one file. core/ is the complete method: its __init__.py lists
its files in reading order, and they use no other folder. fast/ makes it fast.

You can skip everything else until you need it: common/ for commands and files on disk, data/ for
your own pairs, training/ for a run's folder and several workers, evaluation/ for the paper's tasks,
inference/ to use a run, export/ to pass it on, explore/ to look at a run in a browser. train.py,
encode.py, chat.py, tune.py and minimal.py are commands, as are evaluation, export and explore.
config.py holds every setting. DESIGN.md says how the parts fit together and what to open for a
change; PROMISES.md, what you can rely on if things go wrong.
"""

import os
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .inference.sentence_encoder import SentenceEncoder

# OpenBLAS's idle threads spin for 30 ms, so copies and sparse products wait for a core. With
# 2¹⁰ cycles instead of 2²⁶, a DAN step was 15% faster. NumPy reads this when it is loaded.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "10")


def fit(pairs: str | Path | Iterable[Any], run: str | Path | None = None, **settings: Any
        ) -> "SentenceEncoder":
    """Train on your own pairs; → the SentenceEncoder of the step that is best on dev.

    pairs: (message, reply) tuples, a table (a DataFrame, dicts …), or files. run: a new folder,
    which gets a copy of the pairs; None: a temporary one, deleted at the end. settings: those
    of `python -m convsim_mini.train`, e.g. steps=300, init="runs/chat", encoding="cp1252",
    columns=["question", "answer"], text={"filters_off": ["long"]}. `encoder.log` holds the training
    log. From then on, NumPy's own matrix products use one thread. Raises UserError.
    """
    import msgspec

    from .common.cli import UserError, path_of, print_anything
    from .evaluation.after_training import sts_of, summary
    from .inference.sentence_encoder import encoder_of
    from .train import train
    from .training.options import config_of
    from .training.run import LOG, PAIRS, read_log

    print_anything()
    with (TemporaryDirectory(prefix="convsim_mini-") if run is None else nullcontext(run)) as place:
        folder = path_of(place).absolute()
        given = {**settings, "run": folder, "pairs": [folder / PAIRS]}    # not those of --init
        if not isinstance(columns := settings.get("columns", ""), str):
            given["columns"] = [] if columns is None else [*map(str, columns)]    # may be numbers
        plain = msgspec.to_builtins(given, builtin_types=[bytes], enc_hook=lambda value: (
            value.tolist() if hasattr(value, "tolist") else str(value)))    # NumPy's; paths
        config = config_of(plain)
        sts_of(config.data)                                   # now, so that mistakes show early
        try:
            trained = train(config, pairs=[] if pairs is None else pairs)
        except UserError as error:                            # the copy is gone by now
            raise UserError(str(error).replace(str(folder / PAIRS), "pairs")) from None
        tables, next_steps = summary(trained)
        print(tables, *[next_steps] if run else [], sep="\n\n")
        encoder = encoder_of(trained)
        encoder.log, encoder.folder = read_log(folder / LOG), folder if run else None
    return encoder


def load(run: str | Path, device: str = "cpu", tuned: bool = False) -> "SentenceEncoder":
    """Open a run's folder: `load(run).encode(list_of_str)` → float32 (n, 500) unit vectors.

    device: "cpu" or "gpu"; tuned: multiply the vectors by the matrix that `tune` learned. Raises
    UserError for a run that is missing or damaged, or that has no such matrix.
    """
    from .inference.sentence_encoder import encoder_of
    from .training.run import load_run
    return encoder_of(load_run(run, device), tuned)
