"""Every setting of training, with its default and where the default comes from.

"paper §…" refers to Yang et al. 2018; "ours" is followed by our reason. A P@1 that is compared with
27 is on the default corpus's test set (RESULTS.md). A preset is a named set of changes.
"""

from dataclasses import MISSING, dataclass, field, fields
from typing import Annotated, Literal, get_args, get_origin

import msgspec
from msgspec import Meta

from .common.cli import UserError, did_you_mean
from .core.model import ENCODERS
from .core.optim import OPTIMIZERS

PositiveInt = Annotated[int, Meta(ge=1, le=2**31 - 1)]    # an int32, as ids are
Steps = Annotated[int, Meta(ge=1, le=10**15)]    # exact as a float
PositiveFloat = Annotated[float, Meta(gt=0, le=1e38)]    # a float32, neither inf nor nan
Share = Annotated[float, Meta(ge=0, le=1)]


@dataclass(frozen=True)
class TextConfig:
    """How sentences become ids."""

    pieces: PositiveInt = 8_000
    """Most word pieces, a row each (ours: STS 77.2; with 30,000, 75.7 for the same P@1)."""
    bigrams: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 10_000
    """Most bigrams of pieces, the frequent ones, a row each (ours: P@1 26.7; 26.2 without)."""
    filters_off: list[Literal["long", "not_alphabetic", "link_or_mention", "bot"]] = field(
        default_factory=list)
    """Filters of the paper's §3 to switch off, for mail and the like (ours): "long" (350 characters
    or more), "not_alphabetic" (70% letters or less), "link_or_mention", "bot"."""


@dataclass(frozen=True)
class ModelConfig:
    """Encoder, response network and loss."""

    encoder: str = "dan"
    """The "dan" of the paper's §2.3.1, the "transformer" of §2.3.2, or another name in ENCODERS."""
    embedding_dim: PositiveInt = 500
    """Width of embeddings and of a Transformer (ours: as wide as sentence embeddings)."""
    layers: Annotated[list[PositiveInt], Meta(min_length=1)] = field(default_factory=lambda: [500])
    """Widths of the encoder's fully connected layers; the last is the sentence embedding's (paper
    §3.1: 300, 300, 500; ours: one layer learns more in minutes: P@1 27, not 23; STS 77, not 75)."""
    response_hidden: list[PositiveInt] = field(default_factory=list)
    """Widths of the response network's hidden layers (paper §2.2: not given; ours: none)."""
    nli_hidden: PositiveInt = 512
    """Width of the hidden layer of NLI's classifier (paper §2.4)."""
    residual_response: bool = True
    """Whether the response is v′ = v + layers(v), not just layers(v) (ours: P@1 27, not 22)."""
    unit_response: bool = True
    """Whether the response v′ also has unit length (ours: a score is then a cosine)."""
    scale: PositiveFloat = 15.0
    """Factor on scores, 1/temperature (paper §2.2: 1; ours: P@1 26.7; 26.0 with 20)."""
    encoder_bias: bool = False
    """Whether the encoder's last linear layer has a bias (ours: no; P@1 and STS are the same)."""
    start: str = "corpus"
    """Initial values. "corpus": vectors of pieces come from co-occurrences, shorter for frequent
    pieces; bigrams' vectors are zero; the encoder's square linear layers are the identity (ours:
    P@1 27; 18 if all values are "random"). A file of word vectors (GloVe, word2vec, fastText, .npz,
    or a folder of model2vec or WordLlama): they come first, co-occurrences fill the rest."""
    transformer_layers: PositiveInt = 6
    """Number of layers of the Transformer (paper §3.1: 6)."""
    heads: PositiveInt = 8
    """Number of attention heads in each layer (paper §3.1: 8)."""
    hidden: PositiveInt = 2048
    """Width of the position-wise feed-forward networks (paper §3.1: 2048)."""
    dropout: Annotated[float, Meta(ge=0, le=0.99)] = 0.1
    """Share of values dropped in training after a Transformer's embeddings and each sublayer, in
    1/256ths (Vaswani et al. 2017, §5.4: 0.1)."""
    bag: bool = False
    """Whether a Transformer starts as a DAN and adds to that DAN's sentence vector (ours)."""
    max_tokens: PositiveInt = 256
    """A sentence is cut after this many pieces (ours: attention's cost grows quadratically)."""


@dataclass(frozen=True)
class OptimConfig:
    """How the parameters are learned."""

    optimizer: Literal[*OPTIMIZERS] = "adaptive"
    """"sgd" (paper §3.1), or "adaptive": Adam, with Adagrad on the table (ours: fewer steps)."""
    batch_size: PositiveInt = 1024
    """Number of pairs in a batch of replies (paper §3.1: 128; ours: fewer steps)."""
    nli_batch_size: PositiveInt = 256
    """Number of pairs in a batch of NLI (paper §3.1: 128; ours: as many pairs in fewer steps)."""
    nli_weight: PositiveFloat = 30.0
    """Factor on the gradients of NLI's classes (ours: 1, 10, 30 gave 63.5, 66.5, 67.2 on dev)."""
    learning_rate: PositiveFloat = 3e-4
    """Learning rate of dense parameters (paper §3.1: 0.01 for SGD; ours: found on dev)."""
    table_learning_rate: PositiveFloat = 0.2
    """Learning rate of the embedding table (paper: the same; ours: found on dev)."""
    loss: Literal["mean", "sum"] = "mean"
    """The batch's "mean" or "sum": the paper does not say which. 4,000 steps of its SGD took P@1 to
    1.6 and to 5.6. "adaptive" learns the same from both."""
    warmup: Share = 0.1
    """Share of steps over which learning rates rise from zero (ours: the first steps are noise)."""
    decay: Literal["linear", "none"] = "linear"
    """"linear": learning rates fall to zero at the last step (ours: short runs benefit)."""
    drop_at: Share = 1.0
    """Share of steps after which batches are twice as large and learning rates a tenth as large; 1:
    never (paper §3.1: after 30 of 40 million steps)."""


@dataclass(frozen=True)
class Config:
    """Everything that a run depends on, stored in its folder, so that `--config` can repeat it."""

    preset: Literal["chat", "similarity", "paper", "paper-multitask", "transformer",
                    "transformer-small"] = "chat"
    """A set of changes to the defaults. "chat", "similarity" (with entailments) and
    "transformer-small" take minutes; the others follow the paper, "paper-multitask" after them."""
    task: Literal["conversation", "multitask", "entailment"] = "conversation"
    """What to learn besides conversations. "multitask": natural language inference (paper §2.4);
    "entailment": picking what a premise entails (ours)."""
    init: str | None = None
    """Folder of a run to start from (paper §3.1: the multitask model). Its settings of
    text, model and optim apply unless an option overrides them. Other pairs get 8 epochs at a third
    of the learning rates (ours)."""
    stage: Annotated[int, Meta(ge=0, lt=2**15)] = 0
    """How many runs came before this one; set by --init (ours: so each run sees other batches)."""
    nli: str | None = None
    """Folder with snli_1.0_train.jsonl and snli_1.0_dev.jsonl, or with snli_1.0/."""
    nli_share: Annotated[float, Meta(gt=0, lt=1)] = 0.05
    """Share of steps that train NLI (paper §3.1: 5% of the workers do, the same on average)."""
    nli_fraction: Annotated[float, Meta(gt=0, le=1)] = 1.0
    """Share of the NLI pairs, or of the entailments, to train on (the paper's figure 8)."""
    pairs: list[str] = field(default_factory=list)
    """Files of pairs or logs, possibly .gz or .zst; data_scripts/README.md lists the formats.
    Without any: the package chitchat-dataset."""
    columns: list[str] = field(default_factory=list)
    """The names of a table's input and response columns, if they are not among the known names."""
    encoding: str = "utf-8"
    """Encoding of tables and logs without a mark (BOM), such as cp1252 for Excel's plain CSV."""
    pairs_fraction: Annotated[float, Meta(gt=0, le=1)] = 1.0
    """Share of the pairs to train on; the vocabulary is that of all pairs (for learning curves)."""
    device: Literal["cpu", "gpu"] = "cpu"
    """Where to compute."""
    precision: Literal["tf32", "fp32"] = "tf32"
    """Bits of the fraction that a GPU keeps of matrix factors: "tf32" 10, "fp32" all 23 (ours)."""
    half: bool = False
    """Whether to store the final weights in 16 bits (ours: P@1 and STS are the same)."""
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 1
    """The seed of every random number."""
    epochs: Annotated[float, Meta(gt=0, le=1e6)] = 2.0
    """How often each pair is seen (ours: the rates reach zero before a run memorises the pairs)."""
    steps: Steps | None = None
    """Number of batches; null: as many as `epochs` take."""
    evaluations: Steps = 4
    """How many times a run measures dev and saves a checkpoint."""
    run: str | None = None
    """Folder for the run; runs/PRESET, or runs/PRESET-2 …, if none is named."""
    data: str | None = None
    """Folder with stsbenchmark/ for the table at the end; without it, our own small set is used."""
    cache: str = "~/.cache/convsim_mini"
    """Folder for prepared corpora."""
    text: TextConfig = field(default_factory=TextConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)

    @property
    def bigram_rows(self):
        """The most rows of the table for bigrams; a Transformer without `bag` has none."""
        has_bigrams = ENCODERS[self.model.encoder].has_bigrams(self.model)
        return self.text.bigrams if has_bigrams else 0

    @property
    def classifies(self):
        """Whether the model has NLI's classifier."""
        return self.task == "multitask"


PAPER = {
    "steps": 40_000_000,                    # paper §3.1
    "evaluations": 4_000,                   # ours: a checkpoint every minute or two
    "model.embedding_dim": 300,             # not given
    "model.layers": [300, 300, 500],        # paper §3.1
    "model.encoder_bias": True,
    "model.response_hidden": [500],         # paper §2.2: "layers", without number or sizes
    "model.residual_response": False,
    "model.unit_response": False,
    "model.scale": 1.0,                     # paper §2.2: the plain dot product
    "model.start": "random",
    "optim.optimizer": "sgd",               # paper §3.1, as are the next
    "optim.batch_size": 128,
    "optim.nli_batch_size": 128,
    "optim.nli_weight": 1.0,
    "optim.learning_rate": 0.01,
    "optim.table_learning_rate": 0.01,
    "optim.loss": "sum",                    # not given; see OptimConfig
    "optim.warmup": 0.0,
    "optim.decay": "none",
    "optim.drop_at": 0.75,
}
PRESETS = {
    "chat": {},
    "similarity": {"task": "entailment", "nli_share": 0.25},    # ours: every fourth step
    "paper": PAPER,
    "paper-multitask": {
        **{name: value for name, value in PAPER.items() if name.startswith("optim.")},
        "task": "multitask",
        "steps": 30_000_000,                # paper §3.1
        "evaluations": 3_000,               # ours: as often as the paper's other presets
        "optim.drop_at": 2 / 3,             # paper §3.1: 20 of 30 million
    },
    "transformer": PAPER | {
        "model.encoder": "transformer",
        "model.embedding_dim": 512,         # paper §3.1
        "model.layers": [500],              # ours: the paper does not say how 512 becomes 500
    },
    "transformer-small": {                  # ours: one layer next to a DAN, for minutes
        "model.encoder": "transformer",
        "model.bag": True,
        "model.transformer_layers": 1,
        "model.heads": 4,
        "model.hidden": 500,
        "model.dropout": 0.0,               # a run this short repeats few pairs
        "optim.batch_size": 512,
        "optim.learning_rate": 1e-3,
        "optim.table_learning_rate": 0.02,           # rows are 22 times shorter than a DAN's
    },
}
TITLES = {"dan": "DAN", "transformer": "Transformer"}    # of encoders, for people
PRESET_OF = {"transformer": "transformer-small"}    # an encoder's, for --encoder; otherwise "chat"
GROUPS = {"": Config, "text.": TextConfig, "model.": ModelConfig, "optim.": OptimConfig}


# ---------------------------------------------------------------- settings by their dotted names

def settings():
    """Every setting under its dotted name: name → dataclass field."""
    return {group + setting.name: setting for group, cls in GROUPS.items()
            for setting in fields(cls) if f"{setting.name}." not in GROUPS}


def flat(values):
    """A dict of settings and of groups, which are dicts, as one dict with dotted names."""
    named = {}
    for name, value in values.items():
        if isinstance(value, dict) and f"{name}." in GROUPS:
            named |= {f"{name}.{last}": setting for last, setting in value.items()}
        else:
            named[name] = value
    return named


def config_from_dict(values, where=""):
    """A dict of settings, nested or with dotted names, as a Config. Raises UserError.

    where: the file that they come from; "": the command line, on which numbers are str
    """
    prefix, known = f"{where}: " if where else "--", settings()
    groups = {group: {} for group in GROUPS}
    for name, value in flat(values).items():
        if name not in known:
            hint = did_you_mean(name, known)
            raise UserError(f"{prefix}{name}: is not a setting{hint}")
        if known[name].default_factory is not MISSING and not isinstance(value, (list, tuple)):
            value = [value]                                   # of a list's one value, as in `fit`
        group, dot, last = name.rpartition(".")
        try:
            groups[group + dot][last] = msgspec.convert(value, known[name].type, strict=bool(where))
        except ValueError as error:                           # also halves of surrogate pairs
            expected = str(error).partition(", got")[0].replace("`", "").lower()
            if choices := choices_of(known[name].type):
                expected = f"expected {', '.join(choices)}"
            raise UserError(f"{prefix}{name} {str(value):.200}: {expected}") from None
    parts = {group[:-1]: cls(**groups[group]) for group, cls in GROUPS.items() if group}
    config = Config(**groups[""], **parts)
    if fault := _fault(config):
        raise UserError(prefix + fault)
    return config


def choices_of(kind):
    """The strings that a type of Literal[…], or a list of it, allows; () for other types."""
    if get_origin(kind) is list:
        return choices_of(*get_args(kind))
    return get_args(kind) if get_origin(kind) is Literal else ()


def _fault(config):
    """What is wrong with a Config although each of its values is in range, or None."""
    model, dim = config.model, config.model.embedding_dim
    if model.encoder not in ENCODERS:
        return f"model.encoder {model.encoder}: expected {', '.join(ENCODERS)}"
    is_transformer = model.encoder == "transformer"
    if is_transformer and (dim % model.heads or dim % 2):
        return f"model.embedding_dim {dim}: expected an even multiple of the {model.heads} heads"
    if model.bag and not is_transformer:
        return "model.bag true: expected only with --encoder transformer"
    if len(config.columns) not in (0, 2):
        return f"columns {' '.join(config.columns)}: expected two names, for input and response"
    return None
