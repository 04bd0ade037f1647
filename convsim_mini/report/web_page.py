"""The runs in a browser: one file of HTML without anything from elsewhere, a section for each run.

Wherever a function takes `result`, that is a Results; `data` is a Data. What a part returns is
HTML. page.html is the frame, page.css how it looks. page.js shows a point's text at the pointer and
searches the map.
"""

import dataclasses
import re
from html import escape
from pathlib import Path
from string import Template

import numpy as np
from scipy.stats import rankdata

from ..config import PRESETS, Config, flat
from ..snli_files import LABELS
from ..evaluation import attention, sts
from ..evaluation.metrics import pearson
from ..evaluation.response import CANDIDATES, N, precision
from ..figures import as_svg, new_figure, plot_accuracy, plot_loss, plot_precision, save_figure
from ..run import log_of
from ..tables import html_table
from ..training.monitor import choices_of
from .model_card import limits, training_data, what_it_is
from .page import DOWNLOAD, NO_PAIRS, PROVENANCE, TRAINED_ON, provenance

EXAMPLES = 5
SENTENCE = "How old are you, and where do you live?"    # to look at attention
COLOURS = ("#1f77b4", "#ff7f0e", "#2ca02c")
FACTS = ("preset", "pairs", "seed", "run", "data", "cache")    # no departures from a preset


def web_page(results, data):
    """The whole page of some Results: str."""
    read = lambda name: Path(__file__).with_name(name).read_text(encoding="utf-8")
    sections = [section(number, result, data) for number, result in enumerate(results, start=1)]
    contents = "\n".join(f"<nav>{links(number, result)}</nav>"
                         for number, result in enumerate(results, start=1))
    title = escape("What was learned: " + ", ".join(result.name for result in results))
    return Template(read("page.html")).substitute(
        title=title, style=read("page.css"), script=read("page.js"),
        body="\n".join([contents, *sections]))


def links(number, result):
    """A line that leads to each part of a run's section."""
    return f"<b>{escape(result.name)}</b> " + " · ".join(
        f'<a href="#run{number}-{part}">{title}</a>' for part, (title, _) in parts(result).items())


def section(number, result, data):
    """All parts of one run."""
    return "\n".join([
        f"<section>\n<h2>{escape(result.name)}</h2>",
        *(f'<h3 id="run{number}-{part}">{title}</h3>\n{make(result, data)}'
          for part, (title, make) in parts(result).items()), "</section>"])


def parts(result):
    """Name → title and function of (result, data), in the page's order."""
    of_transformer = {"attention": ("Attention", attention_of_a_sentence)}
    return {"training": ("Training", curves), "replies": ("Picking the true reply", replies),
            "similarity": ("Similarity", similarity), "map": ("Map of sentences", sentence_map),
            **(of_transformer if result.encoder == "Transformer" else {}),
            "card": ("Model card", model_card)}


# ---------------------------------------------------------------- the parts

def curves(result, data):
    """What the run's log.jsonl holds, as figures."""
    log = log_of(result.run)
    losses = [record for record in log if {"loss", "nli_loss"} & record.keys()]
    measured, drawn = [record for record in log if "dev" in record], []
    if losses and measured:
        drawn.append(as_svg(plot_loss, losses, measured, choices_of(result.run.config)))
    if measured:
        drawn.append(as_svg(plot_precision, measured, result.run.step))
    if any("nli" in record for record in measured):
        drawn.append(as_svg(plot_accuracy, measured, len(LABELS)))
    return side_by_side(*drawn) if drawn else paragraph("`log.jsonl` holds no curves.")


def replies(result, data):
    """P@N on the test split of the run's own corpus, with its intervals."""
    if result.ranks is None:
        return paragraph(f"Not measured: {NO_PAIRS}.")
    measured = {f"P@{n}": precision(result.ranks, n) for n in N}
    rows = [[name, f"{value:.1f}", f"{low:.1f} to {high:.1f}", f"{n:.1f}"]
            for n, (name, (value, low, high)) in zip(N, measured.items())]
    return side_by_side(as_svg(plot_intervals, measured), paragraph(
        f"How often the true reply is among the best N of {CANDIDATES}, on {len(result.ranks):,} "
        "inputs of the test split.") + html_table(["", "%", "95% interval", "at random"], rows))


def plot_intervals(path, measured):
    """Bars with their 95% intervals: measured: name → value, low, high, in per cent."""
    figure, axes = new_figure()
    value, low, high = np.array([*measured.values()]).T
    axes.bar([*measured], value, yerr=(value - low, high - value), width=0.5, capsize=6,
             color=COLOURS[0], alpha=0.8)
    axes.set(ylabel="true reply among the best N (%)", ylim=(0, 100),
             title="P@N on test, with 95% intervals")
    save_figure(figure, path)


def similarity(result, data):
    """STS dev: a point for each pair, and the pairs nearest to people's ranks and furthest."""
    if "dev" not in data.sts:
        return paragraph(f"STS: {DOWNLOAD.format('stsbenchmark')}.")
    pairs, read = data.sts["dev"], result.sts["dev"]
    scores, ranks = sts.score_0_to_5(read), [rankdata(-x) for x in (read, pairs.labels)]
    titles = [f"{one}\n{two}\npeople {label:.1f}, run {score:.1f}" for one, two, label, score
              in zip(pairs.sentences1, pairs.sentences2, pairs.labels, scores)]
    order = np.argsort(np.abs(ranks[0] - ranks[1]), kind="stable")
    rows = [[f"{scores[k]:.1f}", f"{pairs.labels[k]:.1f}", *(f"{rank[k]:,.0f}" for rank in ranks),
             pairs.sentences1[k], pairs.sentences2[k]] for k in order]
    table = lambda title, rows: f"<h4>{title}</h4>\n" + html_table(
        ["run", "people", "rank by run", "rank by people", "sentence 1", "sentence 2"], rows)
    return "\n".join([
        points(np.stack([pairs.labels, scores], axis=1), pairs.genres, titles,
               xlabel="people's score (0 unrelated … 5 the same)",
               ylabel="run's score, 5 (1 − arccos(cos)/π)",
               title=f"STS dev: Pearson's r = {pearson(read, pairs.labels):.3f} "
                     f"over {len(scores):,} pairs"),
        paragraph("A point is a pair of sentences, which appears under the pointer. Below, all "
                  "pairs are ranked twice, by the run's score and by people's. Rank 1 is the most "
                  "similar pair."),
        table("Nearest to people's rank", rows[:EXAMPLES]),
        table("Furthest from people's rank", rows[:-EXAMPLES - 1:-1])])


def sentence_map(result, data):
    """Sentences of the dev split as points, and a field to search them."""
    if result.map is None:
        return paragraph(f"Not drawn: {NO_PAIRS}.")
    packed, replies, places, shares = result.map
    texts = [readable(map(result.run.vocabulary.token, sentence))
             for sentence in np.split(packed.ids, packed.offsets[1:-1])]
    first, second = (f"direction {k}: {100 * share:.1f}% of the variance"
                     for k, share in enumerate(shares, start=1))
    return "\n".join([
        paragraph(f"{len(texts):,} sentences of the dev split, as the encoder reads them, on the "
                  "two directions in which their vectors differ most (PCA)."),
        "<div>", '<label hidden>Search <input type="search"> <output></output></label>',
        points(places, np.where(replies, "replies", "messages"), texts, xlabel=first,
               ylabel=second), "</div>"])


def attention_of_a_sentence(result, data):
    """Who attends to whom in SENTENCE."""
    return as_svg(attention.plot, *attention.of_sentence(result.run, SENTENCE))


def model_card(result, data):
    """What the run is, where it comes from, what departs from its preset, what it cannot do."""
    run, config = result.run, result.run.config
    names = ", ".join(Path(path).name for path in config.pairs) or "chitchat-dataset"
    facts = {"encoder": result.encoder, "trained on": TRAINED_ON[config.task], "pairs of": names,
             "seed": config.seed, "step kept": f"{run.step:,}",
             **dict(zip(PROVENANCE, provenance(result))), "preset": config.preset}
    preset = flat(dataclasses.asdict(Config())) | PRESETS[config.preset]
    departures = [[name, value, preset[name]]
                  for name, value in flat(dataclasses.asdict(config)).items()
                  if value != preset[name] and name not in FACTS]
    return "\n".join([
        paragraph(f"{what_it_is(config)} {training_data(run)}"), html_table([], facts.items()),
        html_table(["setting", "this run", "preset"], departures) if departures
        else paragraph("No setting departs from the preset."),
        "<h4>Limits</h4>", *map(paragraph, limits(config))])


# ---------------------------------------------------------------- pieces of HTML

def paragraph(text):
    """A text as a paragraph, escaped; what stands in backquotes is code."""
    return "<p>" + re.sub("`(.*?)`", r"<code>\1</code>", escape(text)) + "</p>\n"


def side_by_side(*pieces):
    """Pieces of HTML beside each other where there is room."""
    return f'<div class="row">{"".join(f"<div>{piece}</div>" for piece in pieces)}</div>'


def readable(tokens):
    """Tokens as a text that is easy to read: no space before a mark that ends something."""
    return re.sub(r" (?=[.,!?:;)])", "", " ".join(tokens))


def points(places, groups, texts, **labels):
    """A scatter plot as SVG. A point is a circle, and its text the circle's title.

    places: (n, 2); groups: (n,) names, each of which gets a colour; texts: n; labels: of the axes
    """
    figure, axes = new_figure(10, 6)
    colours = dict(zip(np.unique(groups), COLOURS))
    for name, colour in colours.items():
        axes.scatter([], [], color=colour, label=name)
    axes.set(**labels)
    figure.legend(loc="outside upper right", ncols=len(colours))          # no point lies on it
    axes.update_datalim(places)
    axes.autoscale_view()
    drawn = as_svg(lambda path: save_figure(figure, path))    # only now the axes have their place
    x, y = (axes.transData + figure.dpi_scale_trans.inverted()).transform(places).T * 72
    circles = "\n".join(
        f'<circle cx="{left:.1f}" cy="{72 * figure.get_figheight() - up:.1f}" r="3" '
        f'fill="{colours[group]}"><title>{escape(text)}</title></circle>'
        for left, up, group, text in zip(x, y, groups, texts))
    return drawn.replace("</svg>", f"<g>\n{circles}\n</g></svg>")
