"""A training of seconds with one fault, with two, or with none: find them.

    python -m lessons.patient NAME                      lesson 18's numbers of this patient, what
                                                        may be measured, and the possible faults
    python -m lessons.patient NAME ask MEASUREMENT ...  measures
    python -m lessons.patient NAME diagnose FAULT       judges: exit code 0 is right, 1 is wrong;
                                                        --json for a grader

Run it from the repository's root. Any word is a NAME. The same name has the same fault each time;
`healthy` has none, and a name that begins with `hard` has two: one in the data, one elsewhere. Four
measurements are free for each fault; each further one costs a tenth of the score, and each wrong
diagnosis half of it.
"""

import json
import sys
from math import inf
from pathlib import Path
from zlib import crc32

from convsim_mini.common.cli import (
    Parser, UserError, did_you_mean, errors_in_one_line, python_m, user_errors)
from convsim_mini.common.files import write_text
from convsim_mini.common.lines import read_object

from ..claims import number
from .faults import ELSEWHERE, FAULTS, IN_DATA
from .measurements import MEASUREMENTS, measure
from .training import K, Parts, chart, train

KEPT = Path("yours") / "patients.json"    # by name: what was measured, what was diagnosed
FREE = 4    # measurements for each fault


def faults_of(name):
    """The faults of the patient of this name, one or two, and its seed."""
    draw, seed = (crc32(text.encode(errors="replace")) for text in (name, f"seed of {name}"))
    if name.startswith("hard"):
        return [IN_DATA[draw % len(IN_DATA)], ELSEWHERE[seed % len(ELSEWHERE)]], seed
    return ["healthy" if name == "healthy" else list(FAULTS)[draw % len(FAULTS)]], seed


def admit(name):
    """Train the patient of this name → Run."""
    faults, seed = faults_of(name)
    return train(Parts(**{part: value for fault in faults
                          for part, value in FAULTS[fault].differs.items()}), seed)


def show(title, found):
    """Print label → number or text in two columns."""
    width = max(map(len, found))
    print(f"{title}:", *(f"{label:{width}}  {x if isinstance(x, str) else number(float(x))}"
                         for label, x in found.items()), sep="\n    ")


def note(name, key, word):
    """Keep that a patient was measured ("asked") or diagnosed → all that is kept of it."""
    kept = read_object(KEPT, "cannot be read", "delete it: only counts are lost") if (
        KEPT.exists()) else {}
    mine = kept.setdefault(name, {"asked": [], "diagnoses": []})
    if word not in mine[key]:
        mine[key].append(word)
    with user_errors(KEPT, "run this in a folder that you may write to"):
        KEPT.parent.mkdir(exist_ok=True)
        write_text(KEPT, json.dumps(kept, indent=2) + "\n")
    return mine


def ask(name, run, what):
    """Measure, print, and count it."""
    asked, free = note(name, "asked", what)["asked"], FREE * len(faults_of(name)[0])
    show(what, measure(run, what))
    print(f"({len(asked)} measured; {free} are free, each further one costs a tenth)")


def evidence(run, fault):
    """Of what tells this fault: whether it is so here, what is found, and what the fault gives."""
    for measurement, label, low, high in FAULTS[fault].told_by:
        value = measure(run, measurement)[label]
        said = f"{number(low)} or more" if high == inf else f"{number(low)} to {number(high)}"
        yield (low <= value <= high, f"{measurement}: \"{label}\" is {number(value)}",
               f"with {fault} it is {said}")


def judge(name, run, named):
    """Whether a diagnosis, a list of faults, is right, and what there is to say, in lines."""
    if sorted(named) == sorted(faults_of(name)[0]):
        lines = [f"Right: {' and '.join(named)}."]
        for fault in named:
            tells = [is_found for _, is_found, _ in evidence(run, fault)] or [
                "all measurements are as in a healthy run"]
            lines += [FAULTS[fault].what, "What tells:", *tells,
                      f"Treatment: {FAULTS[fault].treatment}"]
        return True, lines
    against = [f"{is_found}; {expected}" for fault in named
               for is_so, is_found, expected in evidence(run, fault) if not is_so]
    return False, [f"Wrong: it is not {' and '.join(named)}.", *(against or [
        "Some measurement is not as in the patient `healthy`."])]


def diagnose(name, run, named, as_json=False):
    """Judge a diagnosis, print and count it → whether it is right."""
    kept = note(name, "diagnoses", " ".join(named))
    right, lines = judge(name, run, named)
    further = max(0, len(kept["asked"]) - FREE * len(named))
    score = right * max(0, 10 - further) / 10 / 2 ** (len(kept["diagnoses"]) - 1)
    lines.append(f"Measured: {len(kept['asked'])} ({', '.join(kept['asked']) or 'nothing'}). "
                 f"Diagnoses: {len(kept['diagnoses'])}. Score: {score:.3g}.")
    test = {"name": f"patient {name}", "score": score, "max_score": 1, "output": "\n".join(lines)}
    print(json.dumps({"tests": [test], "extra_data": kept}, indent=2) if as_json
          else "\n    ".join(lines))
    return right


def menu(name):
    """Print what may be measured and which faults there are."""
    told = {what: (function.__doc__ or "").strip() for what, function in MEASUREMENTS.items()}
    show("\nmeasurements", told)
    show("\nfaults", {fault: row.what for fault, row in FAULTS.items()})
    print(f"\nNext: {python_m('lessons.patient', name, 'ask', 'steps')}  or  diagnose FAULT. "
          "The patient `healthy` is there to compare.")


def known(words, choices, kind):
    """Raises UserError for a word that is not among the choices, or for none at all."""
    for word in words or [""]:
        if word not in choices:
            raise UserError(f"{word or 'nothing'}: not a known {kind}; expected one of "
                            f"{', '.join(choices)}{did_you_mean(word, choices)}")


@errors_in_one_line()
def main(argv=None):
    """The command."""
    parser = Parser("lessons.patient", __doc__)
    parser.add_argument("name", help="any word: it decides the fault; `healthy` has none, "
                        "`hard…` has two")
    parser.add_argument("what", nargs="?", choices=["ask", "diagnose"], help="without it: a chart")
    parser.add_argument("words", nargs="*", help="measurements; or the fault, or both")
    parser.add_argument("--json", action="store_true", help="of a diagnosis, for a grader")
    options = parser.parse_args(argv)
    name, what, words = options.name, options.what, options.words
    if what:
        known(words, *((MEASUREMENTS, "measurement") if what == "ask" else (FAULTS, "fault")))
    if what == "diagnose" and len(words) != (number := len(faults_of(name)[0])):
        raise UserError(f"diagnose {' '.join(words)}: expected {number} of the faults")
    if options.json and what != "diagnose":
        raise UserError("--json: expected only with diagnose FAULT")
    run = admit(name)
    if what == "ask":
        for word in words:
            ask(name, run, word)
    elif what == "diagnose":
        sys.exit(0 if diagnose(name, run, words, options.json) else 1)
    else:
        show(f"patient {name}, {K} pairs a batch", chart(run))
        menu(name)


if __name__ == "__main__":
    main()
