"""What the paper claims, and whether these runs show it.

Each claim is a function of all Results and the Data → True, False, or None where it cannot be
tested; the numbers in words.
"""

import json
from pathlib import Path

from ..evaluation.metrics import mean_interval, pearson, pearson_difference, with_interval
from ..evaluation.sts import GENRES
from ..training.run import settings_of


def verdicts(results, data):
    """A row for each claim: the claim, the verdict, the numbers."""
    words = {True: "reproduced", False: "not reproduced", None: "not testable here"}
    judged = {claim: judge(results, data) for claim, judge in CLAIMS.items()}
    return [[claim, words[shown], numbers] for claim, (shown, numbers) in judged.items()]


def by_fraction(results):
    """Share of the NLI data → Results: multitask runs from one starting run, which stands at 0.

    They agree in all other settings. The group with most runs is taken.
    """
    groups = {}
    for result in results:
        config = result.run.config
        if config.task == "multitask" and config.init:
            settings = settings_of(config)
            share = settings.pop("nli_fraction")
            key = config.init, result.run.corpus, config.nli, json.dumps(settings)
            groups.setdefault(key, {})[share] = result
    shares = max(groups.values(), key=len, default={})
    if shares and (start := starting_run(next(iter(shares.values())), results)):
        shares[0.0] = start                                   # all have the same starting run
    return dict(sorted(shares.items()))


def starting_run(result, results):
    """The Results of the run that --init named, or None."""
    of_folder = {other.run.folder.resolve(): other for other in results}
    return of_folder.get(result.run.config.init and Path(result.run.config.init))


def transformer_above_dan(results, data):
    """Do more true replies come first with the Transformer, on the same conversations?"""
    of_encoder = {result.encoder: result for result in reversed(results)    # the first ones count
                  if result.run.config.task == "conversation" and result.ranks is not None}
    dan = of_encoder.get("DAN")
    transformer = of_encoder.get("Transformer")
    if not dan or not transformer or dan.run.corpus != transformer.run.corpus:
        return None, "needs a run of each encoder on the same conversations"
    gains = (transformer.ranks == 1).astype(float) - (dan.ranks == 1)
    gain = mean_interval(100 * gains)
    return gain[1] > 0, f"P@1 of {transformer.name} − {dan.name}: {with_interval(gain, '+.1f')}"


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
    gains = {}
    for name in GENRES[1:]:
        of_genre = sts.genres == name
        gains[name] = pearson_difference(after[of_genre], before[of_genre], sts.labels[of_genre])
    numbers = ", ".join(f"{name} {with_interval([100 * x for x in gain], '+.1f')}"
                        for name, gain in gains.items())
    return max(gains, key=gains.get) == genre and gains[genre][1] > 0, f"{what}: {numbers}"


def a_tenth_gives_most(results, data):
    """Does a tenth of the NLI data add half of what all of it adds to captions on STS dev?"""
    shares = by_fraction(results)
    if not {0.0, 0.1, 1.0} <= shares.keys() or "dev" not in data.sts:
        return None, "needs STS dev, and figure 8's runs with 10% and all of the NLI data"
    labels, captions = data.sts["dev"].labels, data.sts["dev"].genres == "captions"
    none, tenth, whole = (100 * pearson(shares[share].sts["dev"][captions], labels[captions])
                          for share in (0.0, 0.1, 1.0))
    return (whole > none and tenth - none >= (whole - none) / 2,
            f"captions r × 100 with 0, 10 and 100%: {none:.1f}, {tenth:.1f}, {whole:.1f}")


def attention_widens(results, data):
    """Mean distance that attention reaches, last layer against first, on the corpus's dev split."""
    for result in results:
        if result.reach is not None and len(result.reach) > 1:
            gain = mean_interval(result.reach[-1] - result.reach[0])
            return gain[1] > 0, (f"{result.name}, last layer − first: "
                                 f"{with_interval(gain, '+.2f')} words")
    return None, "needs a Transformer's run with two layers or more"


CLAIMS = {
    "The Transformer picks replies better than the DAN (§4.1)": transformer_above_dan,
    "NLI helps captions most (§5)": nli_helps_captions_most,
    "Tuning helps news most (§5)": tuning_helps_news_most,
    "A tenth of the NLI data already gives most of it (§5.1)": a_tenth_gives_most,
    "Attention reaches further in higher layers (§2.3.2)": attention_widens,
}
