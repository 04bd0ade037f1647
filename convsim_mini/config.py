"""Every setting, once: its default, and where the default comes from.

"paper §…" is Yang et al. 2018; "ours" says why. A preset is a named set of changes to the
defaults; `--preset`, then `--config`, then single options override one another in that order.
"""

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from jsonargparse.typing import (
    ClosedUnitInterval,
    NonNegativeFloat,
    NonNegativeInt,
    OpenUnitInterval,
    PositiveFloat,
    PositiveInt,
    restricted_number_type,
)

from .cli import Parser, UserError

PositiveShare = restricted_number_type("PositiveShare", float, [(">", 0), ("<=", 1)])


@dataclass
class TextConfig:
    """Sentences to ids.

    Attributes:
        words: most frequent words with a row of their own (ours: the paper names no size)
        oov_buckets: rows shared by all other words (ours: an unknown word still looks like itself)
        bigram_buckets: rows shared by all bigrams (ours: the paper learns bigrams but does not
            say how many; with 50,000 words this makes the table of 250,000 rows)
    """

    words: PositiveInt = 50_000
    oov_buckets: PositiveInt = 1_000
    bigram_buckets: PositiveInt = 200_000


@dataclass
class ModelConfig:
    """Encoder, response network and loss.

    Attributes:
        encoder: "dan" (paper §2.3.1) or "transformer" (paper §2.3.2)
        embedding_dim: width of a word's or bigram's embedding (ours: the paper names the layers'
            widths, 300 first, but not this one), and of a Transformer throughout
        layers: widths of the encoder's fully connected layers, the last one the sentence
            embedding's, 500 in the paper (§3.1: 300, 300, 500; ours: one layer learns more in
            minutes, P@1 28 instead of 26, and keeps 3 more points of STS)
        response_hidden: widths of the hidden layers that only the response passes, before a last
            one as wide as the embedding (§2.2 speaks of layers without number or sizes; ours:
            none, for a second layer was not better in minutes)
        residual_response: v′ = v + layers(v) (ours: starts near v, so the first step already
            ranks by overlap instead of by noise)
        unit_response: v′ has unit length too (ours: a score is then a cosine)
        scale: factor on the scores (ours: cosines span 2, a softmax over 1,024 needs more; the
            paper's free dot product has 1)
        frequency_weight: a in a/(a + p(word)), the initial length of word rows; 0 for none (ours:
            the untrained encoder starts as a weighted bag of words: P@1 15 instead of 7)
        svd_share: share of a word's dimensions that start from the corpus's own co-occurrences
            (ours: without it P@1 ends at 21 instead of 28, see README)
        zero_bigrams: bigram rows start at zero (ours: random ones drown the words, P@1 17
            instead of 28)
        transformer_layers: layers of the Transformer (paper §3.1: 6)
        heads: attention heads of each layer (paper §3.1: 8)
        hidden: width of the position-wise feed-forward networks (paper §3.1: 2048)
        pre_norm: layer norm before attention and feed-forward, and once after the last layer
            (tensor2tensor's default of the time), or after each residual connection
        nli_hidden: width of the hidden layer of NLI's classifier (paper §2.4)
        dropout: share of the numbers left out in training after embedding, attention's softmax, relu
            and each sublayer (tensor2tensor's 0.1), in steps of 1/256
        max_tokens: longer sentences are cut to so many words (ours: attention's cost grows with
            the square)
    """

    encoder: Literal["dan", "transformer"] = "dan"
    embedding_dim: PositiveInt = 300
    layers: list[PositiveInt] = field(default_factory=lambda: [500])
    response_hidden: list[PositiveInt] = field(default_factory=list)
    nli_hidden: PositiveInt = 512
    residual_response: bool = True
    unit_response: bool = True
    scale: PositiveFloat = 20.0
    frequency_weight: NonNegativeFloat = 1e-3
    svd_share: ClosedUnitInterval = 0.5
    zero_bigrams: bool = True
    transformer_layers: PositiveInt = 6
    heads: PositiveInt = 8
    hidden: PositiveInt = 2048
    pre_norm: bool = True
    dropout: ClosedUnitInterval = 0.1
    max_tokens: PositiveInt = 256


@dataclass
class OptimConfig:
    """How it learns.

    Attributes:
        optimizer: "sgd" (paper §3.1) or "adaptive": Adam, and row-wise Adagrad on the table
            (ours: a rare word cannot wait for as many steps as 40 million)
        batch_size: pairs in a batch, each with batch_size − 1 wrong responses (paper §3.1: 128;
            ours: a point of P@1 more from as many pairs)
        nli_batch_size: pairs in a batch of NLI (paper §3.1: 128; ours: as many pairs in fewer steps)
        nli_weight: factor on NLI's gradients, which are small beside the conversations' (ours: with 1, 10, 30
            NLI's accuracy on dev is 63.5, 66.5, 67.2)
        rate: learning rate of dense parameters (paper §3.1: 0.01 for SGD; ours: Adam's usual)
        table_rate: learning rate of the embedding table (paper: the same; ours: found on dev)
        loss: "mean" or "sum" over the batch (not said in the paper; in 4,000 steps of its SGD on
            the default corpus the sum took P@1 from 1.0 to 5.6, the mean to 1.6: its gradient is
            128 times smaller at the same rate; an adaptive optimiser does not care)
        warmup: steps over which the rates rise from zero (ours: Adam's first steps are noise)
        decay: "linear" to zero at the last step (ours: short runs gain from it) or "none"
        drop_at: share of the steps after which dropped_batch_size and dropped_rate hold; 1 for
            never (paper §3.1: 30 of 40 million steps, then 256 and 0.001)
        dropped_batch_size: see drop_at; of both tasks
        dropped_rate: see drop_at; the table's rate changes by the same factor
        word_dropout: share of the words left out of each sentence in training (Iyyer et al. 2015;
            ours: a corpus this small is otherwise learned by heart)
        mask_false_negatives: equal inputs or responses in a batch are no wrong answers (ours)
    """

    optimizer: Literal["adaptive", "sgd"] = "adaptive"
    batch_size: PositiveInt = 1024
    nli_batch_size: PositiveInt = 256
    nli_weight: PositiveFloat = 30.0
    rate: PositiveFloat = 1e-3
    table_rate: PositiveFloat = 0.06
    loss: Literal["mean", "sum"] = "mean"
    warmup: NonNegativeInt = 50
    decay: Literal["linear", "none"] = "linear"
    drop_at: ClosedUnitInterval = 1.0
    dropped_batch_size: PositiveInt = 256
    dropped_rate: PositiveFloat = 1e-3
    word_dropout: ClosedUnitInterval = 0.4
    mask_false_negatives: bool = True


@dataclass
class Config:
    """Everything a run depends on; stored in its folder, from which `--config` replays it.

    Attributes:
        preset: "chat" is the DAN that learns most in minutes on two cores, "paper" the paper's
            DAN and its recipe; "transformer-small" and "transformer" the same for the other encoder;
            "paper-multitask" the paper's second stage, for a run of either of its presets with --init
        task: "conversation" alone; "multitask" with natural language inference beside it (paper §2.4);
            or "nli" alone, the control without conversations
        init: folder of a run whose parameters to start from, as the paper's multitask model does (§3.1);
            its preset, pairs, text, model and optim hold where --preset or another option says nothing else
        nli: folder with snli_1.0_train and snli_1.0_dev, .jsonl or .txt, or with snli_1.0/
        nli_share: share of multitask's steps that train NLI (paper §3.1: 5% of the workers)
        nli_fraction: share of the NLI pairs to train on (the paper's figure 8)
        pairs: files of pairs, .tsv (input TAB response) or .jsonl (fields input and response),
            plain, .gz or .zst; none for chitchat-dataset
        device: "cpu" or "gpu"
        seed: of every random number
        steps: number of batches
        minutes: train for about so long instead: the number of steps is fixed at the end of the
            warm-up, when their speed is known, and stored as `steps`
        evaluations: how often dev is measured and a checkpoint saved
        run: folder for the run; runs/PRESET, or runs/PRESET-2 …, if none is named
        data: folder with stsbenchmark/ for the table at the end; a small set written for this
            project without it
        cache: folder for prepared corpora
        text: sentences to ids
        model: encoder, response network and loss
        optim: how it learns
    """

    preset: Literal["chat", "paper", "paper-multitask", "transformer", "transformer-small"] = "chat"
    task: Literal["conversation", "multitask", "nli"] = "conversation"
    init: str | None = None
    nli: str | None = None
    nli_share: OpenUnitInterval = 0.05
    nli_fraction: PositiveShare = 1.0
    pairs: list[str] = field(default_factory=list)
    device: Literal["cpu", "gpu"] = "cpu"
    seed: NonNegativeInt = 1
    steps: PositiveInt = 2_000
    minutes: PositiveFloat | None = None
    evaluations: PositiveInt = 8
    run: str | None = None
    data: str | None = None
    cache: str = "~/.cache/convsim_mini"
    text: TextConfig = field(default_factory=TextConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)

    @property
    def bigram_rows(self):
        """Rows of the embedding table for bigrams: a Transformer has words alone."""
        return self.text.bigram_buckets if self.model.encoder == "dan" else 0

    @property
    def classifies(self):
        """Whether the model has NLI's classifier."""
        return self.task != "conversation"


PAPER = {
    "steps": 40_000_000,                                      # paper §3.1
    "evaluations": 4_000,                                     # ours: a checkpoint every minute or two
    "model.layers": [300, 300, 500],                          # paper §3.1
    "model.response_hidden": [500],                           # paper §2.2: "layers", without number or sizes
    "model.residual_response": False,
    "model.unit_response": False,
    "model.scale": 1.0,                                       # paper §2.2: the plain dot product
    "model.frequency_weight": 0.0,
    "model.svd_share": 0.0,
    "model.zero_bigrams": False,
    "optim.optimizer": "sgd",                                 # paper §3.1, as all that follow
    "optim.batch_size": 128,
    "optim.nli_batch_size": 128,
    "optim.nli_weight": 1.0,
    "optim.rate": 0.01,
    "optim.table_rate": 0.01,
    "optim.loss": "sum",                                      # not said; see OptimConfig
    "optim.warmup": 0,
    "optim.decay": "none",
    "optim.drop_at": 0.75,
    "optim.word_dropout": 0.0,
    "optim.mask_false_negatives": False,
}
PRESETS = {
    "chat": {},
    "paper": PAPER,
    "paper-multitask": {name: value for name, value in PAPER.items() if name.startswith("optim.")} | {
        "task": "multitask",
        "steps": 30_000_000,                                  # paper §3.1
        "evaluations": 3_000,                                 # ours: as often as the paper's other presets
        "optim.drop_at": 2 / 3,                               # paper §3.1: 20 of 30 million
    },
    "transformer": PAPER | {
        "model.encoder": "transformer",
        "model.embedding_dim": 512,                           # paper §3.1
        "model.layers": [500],                                # ours: the paper does not say how 512 becomes 500
    },
    "transformer-small": {                                    # ours: what learned most on two cores in three minutes
        "steps": 600,                                         # four minutes
        "model.encoder": "transformer",
        "model.embedding_dim": 256,
        "model.transformer_layers": 1,                        # two of half the width: 27.6 after 145 s, not 30.8 after 160
        "model.heads": 4,
        "model.hidden": 512,
        "model.dropout": 0.0,                                 # so short a run sees few pairs twice
        "optim.batch_size": 512,
        "optim.table_rate": 0.004,                            # rows are 16 times shorter than the DAN's
        "optim.word_dropout": 0.0,
    },
}
INHERITED = ("text.", "model.", "optim.")    # from the run that --init names
ENCODERS = {"dan": "chat", "transformer": "transformer-small"}


def config_parser():
    """The parser of the training command: an option for every field, --config and --print_config."""
    parser = Parser(prog="python -m convsim_mini.train", description=__doc__.splitlines()[0], parser_mode="json")
    parser.add_class_arguments(Config)
    parser.add_argument("--config", action="config", help="JSON file of settings, such as a run's config.json")
    parser.add_argument("--encoder", choices=list(ENCODERS), help="short for the --preset that learns in minutes with it")
    parser.add_argument("--resume", metavar="RUN", help="go on with a stopped run, with its own settings")
    return parser


def resumed_folder(argv):
    """RUN of `--resume RUN`, or None. Raises UserError where another option stands beside it."""
    if not any(arg.partition("=")[0] == "--resume" for arg in argv):
        return None
    values = [arg.removeprefix("--resume=") for arg in argv if arg != "--resume"]
    if len(values) != 1 or values[0].startswith("--"):
        raise UserError("--resume: expected a run's folder and no other option, for a run goes on with its own settings; "
                        "to train with others start a new one with --config RUN/config.json")
    return Path(values[0])


def parse_config(argv):
    """Command line to Config: defaults, then --init's, the preset's, --config, and single options."""
    argv = _presets_for_encoders(_join_lists(argv))
    for path in _values(argv, "--config"):
        _check_file(path)
    parser = config_parser()
    for folder in _values(argv, "--init"):
        parser.set_defaults(_inherited(folder))
    preset = PRESETS[parser.parse_args([arg for arg in argv if not arg.startswith("--print_config")]).preset]
    inherits = any(_values(argv, "--init")) and not any(_values(argv, "--preset"))
    parser.set_defaults({name: value for name, value in preset.items() if not (inherits and name.startswith(INHERITED))})
    config = _to_config(parser, parser.parse_args(argv))
    # a run is read again from anywhere
    config.pairs = [str(Path(path).resolve()) for path in config.pairs]
    for name in ("data", "init", "nli"):
        value = getattr(config, name)
        setattr(config, name, value and str(Path(value).resolve()))
    config.cache = str(Path(config.cache).expanduser().resolve())
    return config


def _inherited(folder):
    """What a run that starts from another takes over from it, as defaults for a parser."""
    path = Path(folder, "config.json")
    values = config_to_dict(config_from_dict(_read_config(path, "--init"), path))
    inner = {f"{part}.{name}": value for part in ("text", "model", "optim") for name, value in values[part].items()}
    return {"preset": values["preset"], "pairs": values["pairs"], **inner}


def config_from_dict(values, where):
    """What config_to_dict gave, checked field by field. `where` names the file in errors."""
    parser = config_parser()
    try:
        return _to_config(parser, parser.parse_object(values))
    except UserError as error:
        raise UserError(f"{where}: {error}") from None


def config_to_dict(config):
    """A Config as nested dicts, for JSON."""
    return dataclasses.asdict(config)


def _to_config(parser, namespace):
    fields = parser.instantiate(namespace).as_dict()
    encoder = fields["encoder"]
    fields = {name: value for name, value in fields.items() if name not in ("config", "encoder", "resume")}
    config = Config(**fields)
    model = config.model
    if model.encoder == "transformer" and (model.embedding_dim % model.heads or model.embedding_dim % 2):
        raise UserError(f"--model.embedding_dim {model.embedding_dim}: expected an even multiple of the {model.heads} heads")
    if model.dropout > 0.99:
        raise UserError(f"--model.dropout {model.dropout}: expected a share up to 0.99, or nothing is left to learn from")
    if encoder and encoder != model.encoder:
        raise UserError(f"--encoder {encoder}: another option or config file asks for --model.encoder {model.encoder}")
    if config.classifies and not config.nli:
        raise UserError(f"--task {config.task}: needs --nli, the folder with snli_1.0_train and snli_1.0_dev")
    if not config.model.layers:
        raise UserError("--model.layers: no layer is given, expected the width of one or more, such as 500")
    if config.seed >= 2**63:
        raise UserError(f"--seed {config.seed}: expected a number below 2⁶³")
    return config


def _presets_for_encoders(argv):
    """Put the --preset that an `--encoder X` is short for before all else."""
    argv = [part for arg in argv for part in (arg.split("=", 1) if arg.startswith("--encoder=") else [arg])]
    presets = [ENCODERS[value] for name, value in zip(argv, argv[1:]) if name == "--encoder" and value in ENCODERS]
    return [part for preset in presets for part in ("--preset", preset)] + argv


def _values(argv, option):
    """What stands after an option, each time it is given."""
    for arg, following in zip(argv, [*argv[1:], ""]):
        if arg == option and following:
            yield following
        elif arg.startswith(f"{option}="):
            yield arg.removeprefix(f"{option}=")


def _read_config(path, option):
    try:
        values = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{option} {path}: cannot be read as JSON ({error}); expected a run's config.json") from None
    if not isinstance(values, dict):
        raise UserError(f"{option} {path}: holds no JSON object; expected a run's config.json")
    return values


def _check_file(path):
    """Raise a UserError that names the config file, where jsonargparse would leave the name out."""
    values = _read_config(path, "--config")
    for name in ("encoder", "resume"):
        if values.get(name) is not None:
            raise UserError(f'--config {path}: "{name}" is an option of the command line alone')
    config_from_dict(values, f"--config {path}")


def _join_lists(argv):
    """Let lists be given as `--pairs a b`: jsonargparse wants them as one JSON value."""
    joined, values = [], None
    for arg in argv:
        name, equals, value = arg.partition("=")
        if name in ("--pairs", "--model.layers", "--model.response_hidden"):
            values = [value] if equals else []
            joined += [name, values]
        elif arg.startswith("--") or values is None:
            values = None
            joined.append(arg)
        else:
            values.append(arg)
    return [arg if isinstance(arg, str) else arg[0] if len(arg) == 1 and arg[0].startswith("[") else json.dumps(arg)
            for arg in joined]
