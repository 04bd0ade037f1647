"""Measure one or more runs on the paper's tasks. Tasks without data are shown as not measured.

    python -m convsim_mini.evaluation RUN… [--on sts cqa …] [--data DIR] [--out DIR] [--json]

Several runs are also compared: paired differences, and groups of seeds.
--out DIR writes the same tables as a page, evaluation.md, with figures 7 and 8 of the paper and the
runs' curves on dev, the tables as tables.tex, and all figures as figures.csv.
"""

import csv
import sys
from contextlib import contextmanager, nullcontext, redirect_stdout
from pathlib import Path

import numpy as np

from ..common.cli import UserError, errors_in_one_line, parser_of
from ..common.files import new_folder, write_text
from ..common.show import latex, markdown, new_figure, save_figure
from ..training.run import LOG, load_run, read_log
from . import EVALUATIONS, sts
from .compare import comparison
from .results import across, json_lines, names_of, rows_of, show

ABOUT = "run", "task", "data", "row"    # of a figure
TASKS = "; ".join(f"{task}: {purpose}" for task, purpose in EVALUATIONS.items())


@errors_in_one_line()
def main(argv=None):
    """The command: print every table as soon as it is measured."""
    parser = parser_of("evaluation", __doc__, "--device", "--json", nargs="+",
                       help="the runs' folders")
    parser.add_argument("--data", type=Path, help="folder with any of stsbenchmark/, snli_1.0/, "
                        "cqa/ and senteval/; without it, the package's own small sets and the "
                        "run's NLI data are used")
    parser.add_argument("--on", nargs="+", choices=EVALUATIONS, default=[*EVALUATIONS],
                        help=f"tasks to measure (default: all; senteval takes minutes): {TASKS}")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write the tables as a page, with "
                        "figures, in LaTeX, and every figure as CSV, into a new folder")
    options, found = parser.parse_intermixed_args(argv), []
    if options.data and not options.data.is_dir():
        raise UserError(f"--data {options.data}: is not a folder")
    page = (new_folder(options.out, "choose another folder with --out") if options.out
            else nullcontext())
    with page as folder, redirect_stdout(sys.stderr if options.json else sys.stdout):
        runs = [load_run(run, options.device) for run in options.run]
        for ones in across(runs, options.data, options.on):
            print(show(ones) + "\n")
            found.append(ones)
        if len(runs) > 1:
            print(comparison(runs, found) + "\n")
        if folder:
            write_page(folder, runs, found)
            print(f"{options.out / 'evaluation.md'}, figures.csv: "
                  f"{sum(not first.absent for first, *_ in map(dict.values, found))} tables")
    if options.json:
        print(json_lines(rows_of(found)))


# ---------------------------------------------------------------- what --out writes

def write_page(folder, runs, found):
    """Write evaluation.md, its figures and figures.csv into a folder.

    found: a list of what `across` returns, in the order of the page
    """
    with open(folder / "figures.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*ABOUT, "metric", "value", "low", "high"])
        for row in rows_of(found):
            about = [row.pop(name) for name in ABOUT]
            writer.writerows([*about, metric, *figure] for metric, figure in row.items())
    of_latex = "\n\n".join(show(ones, latex) for ones in found).split("\n\n")
    write_text(folder / "tables.tex", "\n\n".join(
        part if part.startswith(r"\begin") else "% " + part.replace("\n", "\n% ")
        for part in of_latex) + "\n")
    parts = [show(ones, markdown) for ones in found]
    parts += [comparison(runs, found, markdown)] if len(runs) > 1 else []
    draw(folder, runs, found)
    parts += [f"![{path.name}]({path.name})" for path in sorted(folder.glob("*.png"))]
    write_text(folder / "evaluation.md", "\n\n".join(parts) + "\n")


def draw(folder, runs, found):
    """Draw into a folder those figures for which there are measurements."""
    names = names_of(runs)
    with picture(folder / "curves.png", xlabel="step", ylabel="P@1 on dev (%)",
                 title="Training, each run on its own pairs") as axes:
        for name, run in zip(names, runs):
            log = [record for record in read_log(run.path.with_name(LOG)) if "dev_p1" in record]
            if log:
                axes.plot(*([record[of] for record in log] for of in ("step", "dev_p1")), "o-",
                          label=name)
    of_sts = {one.name: ones for ones in found for one in ones.values()
              if one.task == "sts" and one.name in ("dev", "test")}
    for name, ones in of_sts.items():
        run, one = next(iter(ones.items()))
        figure_7(folder / f"figure_7_{name}.png", f"{run} STS {name}".strip(), one)
    shares = {name: 100 * run.config.nli_fraction if run.config.task == "multitask" else 0.0
              for name, run in zip(names, runs)
              if run.config.task in ("conversation", "multitask")}
    if len({*shares.values()}) > 2:
        figure_8(folder / "figure_8.png", shares, of_sts)


def figure_7(path, name, one):
    """Predicted score against people's score, one point for each pair of a Measured of STS."""
    pairs, similarity = one.data, one.scores["trained"]
    scores, (r, *_) = sts.score_0_to_5(similarity), sts.figures(pairs, similarity)["r"]
    with picture(path, xlabel="people's score (0 unrelated … 5 the same)",
                 ylabel="5 (1 − arccos(cos)/π)",
                 title=f"{name}: Pearson's r × 100 = {r:.1f} over {len(scores):,} pairs") as axes:
        for genre in np.unique(pairs.genres):
            of_genre = pairs.genres == genre
            axes.scatter(pairs.labels[of_genre], scores[of_genre], s=12, alpha=0.5, label=genre,
                         linewidths=0)


def figure_8(path, shares, of_sts):
    """r × 100 on STS against the percentage of the NLI data; shares: run's name → percentage."""
    with picture(path, xlabel="NLI data used in multitask training (%; 0: only conversations)",
                 ylabel="Pearson's r × 100",
                 title="STS Benchmark against the amount of NLI data") as axes:
        for name, ones in of_sts.items():
            axes.plot(*zip(*sorted((shares[run], one.figures["trained"]["r"][0])
                                   for run, one in ones.items() if run in shares)), "o-",
                      label=f"STS {name}")


@contextmanager
def picture(path, **labels):
    """The axes of a figure with a legend; if anything is drawn, it is written to the path."""
    figure, axes = new_figure()
    yield axes
    if axes.has_data():
        axes.set(**labels)
        axes.legend(loc="lower right")
        save_figure(figure, path)


if __name__ == "__main__":
    main()
