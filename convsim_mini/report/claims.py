"""What the paper claims, and whether these runs show it.

Each claim is a function of all Results and the Data → True, False, or None where it cannot be
tested; the numbers in words.
"""

import json
from pathlib import Path

from ..evaluation.attention import widening
from ..evaluation.metrics import mean_interval, pearson, pearson_difference
from ..evaluation.sts import GENRES
from ..run import settings_of


def verdicts(results, data):
    """The list of claims: rows of claim, verdict, numbers."""
    words = {True: "reproduced", False: "not reproduced", None: "not testable here"}
    return [[claim, words[shown], numbers] for claim, judge in CLAIMS.items()
            for shown, numbers in [judge(results, data)]]


def by_fraction(results):
    """Share of the NLI data → Results: multitask runs from one starting run, and that one at 0.

    They agree in all other settings. Of several such groups it is the one with most runs.
    """
    groups = {}
    for result in results:
        if result.run.config.task == "multitask" and (init := result.run.config.init):
            settings = settings_of(result.run.config)
            share = settings.pop("nli_fraction")
            key = init, result.run.corpus, result.run.config.nli, json.dumps(settings)
            groups.setdefault(key, {})[share] = result
    shares = max(groups.values(), key=len, default={})
    start = starting_run(next(iter(shares.values())), results) if shares else None
    return {0.0: start, **shares} if start else shares


def starting_run(result, results):
    """The Results of the run that --init named, or None."""
    of_folder = {other.run.folder.resolve(): other for other in results}
    return of_folder.get(result.run.config.init and Path(result.run.config.init))


def transformer_above_dan(results, data):
    """Of runs on the same conversations: do more true replies come first with the Transformer?"""
    of_encoder = {result.encoder: result for result in reversed(results)    # the first ones count
                  if result.run.config.task == "conversation" and result.ranks is not None}
    dan, transformer = of_encoder.get("DAN"), of_encoder.get("Transformer")
    if not dan or not transformer or dan.run.corpus != transformer.run.corpus:
        return None, "needs a run of each encoder on the same conversations"
    gains = (transformer.ranks == 1).astype(float) - (dan.ranks == 1)
    mean, low, high = mean_interval(100 * gains)
    return low > 0, f"P@1 of {transformer.name} − {dan.name}: {mean:+.1f} [{low:+.1f}, {high:+.1f}]"


def nli_helps_captions_most(results, data):
    """On STS dev, against the run that multitask training started from."""
    for result in results:
        before, config = starting_run(result, results), result.run.config
        if config.task == "multitask" and config.nli_fraction == 1 and before and "dev" in data.sts:
            return most_in("captions", data.sts["dev"], result.sts["dev"], before.sts["dev"],
                           f"{result.name} − {before.name}")
    return None, "needs a multitask run, the run that it started from, and STS dev"


def tuning_helps_news_most(results, data):
    """On STS dev, against the same run out of the box."""
    for result in results:
        tuned = result.readings.get("trained, tuned", {})
        if "dev" in tuned:
            return most_in("news", data.sts["dev"], tuned["dev"], result.sts["dev"],
                           f"{result.name} tuned − out of the box")
    return None, "needs a tuned run and STS dev"


def most_in(genre, sts, after, before, what):
    """Did r rise in this genre, beyond its 95% interval, and more than in the others?"""
    gains = {name: pearson_difference(*(side[sts.genres == name]
                                        for side in (after, before, sts.labels)))
             for name in GENRES[1:]}
    numbers = ", ".join(f"{name} {100 * gain:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"
                        for name, (gain, low, high) in gains.items())
    return max(gains, key=gains.get) == genre and gains[genre][1] > 0, f"{what}: {numbers}"


def a_tenth_gives_most(results, data):
    """Of what all the NLI data adds to captions on STS dev, does a tenth already add half?"""
    shares = by_fraction(results)
    if not {0.0, 0.1, 1.0} <= shares.keys() or "dev" not in data.sts:
        return None, ("needs STS dev, and multitask runs from one run with 10% and all of the NLI "
                      "data: `python -m convsim_mini.report.fractions`")
    labels, captions = data.sts["dev"].labels, data.sts["dev"].genres == "captions"
    none, tenth, whole = (100 * pearson(shares[share].sts["dev"][captions], labels[captions])
                          for share in (0.0, 0.1, 1.0))
    return (whole > none and tenth - none >= (whole - none) / 2,
            f"captions r × 100 with 0, 10 and 100%: {none:.1f}, {tenth:.1f}, {whole:.1f}")


def attention_widens(results, data):
    """Mean distance that attention reaches, last layer against first, on the corpus's dev split."""
    for result in results:
        if result.reach is not None and len(result.reach) > 1:
            mean, low, high = widening(result.reach)
            return low > 0, (f"{result.name}, last layer − first: {mean:+.2f} "
                             f"[{low:+.2f}, {high:+.2f}] words")
    return None, "needs a Transformer's run with two layers or more"


CLAIMS = {
    "The Transformer picks replies better than the DAN (§4.1)": transformer_above_dan,
    "NLI helps captions most (§5)": nli_helps_captions_most,
    "Tuning helps news most (§5)": tuning_helps_news_most,
    "A tenth of the NLI data already gives most of it (§5.1)": a_tenth_gives_most,
    "Attention reaches further in higher layers (§2.3.2)": attention_widens,
}
