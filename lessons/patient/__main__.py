"""A training of seconds with one fault, or none: find it.

    python -m lessons.patient NAME                      lesson 18's numbers of this patient, what
                                                        may be measured, and the possible faults
    python -m lessons.patient NAME ask MEASUREMENT ...  measures
    python -m lessons.patient NAME diagnose FAULT       judges: exit code 0 is right, 1 is wrong;
                                                        --json for a grader

Run it from the repository's root. Any word is a NAME. The same name has the same fault each time;
`healthy` has none. In a terminal the first command then waits for measurements and for a fault.
"""

import json
import sys
from contextlib import suppress
from math import inf
from pathlib import Path
from zlib import crc32

from convsim_mini.common.cli import (
    Parser, UserError, did_you_mean, errors_in_one_line, python_m, user_errors)
from convsim_mini.common.files import write_text
from convsim_mini.common.lines import read_object

from ..claims import number
from .faults import FAULTS
from .measurements import MEASUREMENTS, measure
from .training import K, Parts, chart, train

KEPT = Path("yours") / "patients.json"    # by name: what was measured, what was diagnosed


def fault_of(name):
    """The fault of the patient of this name, and its seed."""
    draw, seed = crc32(name.encode()), crc32(f"seed of {name}".encode())
    return "healthy" if name == "healthy" else list(FAULTS)[draw % len(FAULTS)], seed


def admit(name):
    """Train the patient of this name → Run."""
    fault, seed = fault_of(name)
    return train(Parts(**FAULTS[fault].differs), seed)


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
    note(name, "asked", what)
    show(what, measure(run, what))


def evidence(run, fault):
    """Of what tells this fault: whether it is so here, what is found, and what the fault gives."""
    for measurement, label, low, high in FAULTS[fault].told_by:
        value = measure(run, measurement)[label]
        said = f"{number(low)} or more" if high == inf else f"{number(low)} to {number(high)}"
        yield (low <= value <= high, f"{measurement}: \"{label}\" is {number(value)}",
               f"with {fault} it is {said}")


def judge(name, run, named):
    """Whether a diagnosis is right, and what there is to say, in lines."""
    fault, _ = fault_of(name)
    tells = [is_found for _, is_found, _ in evidence(run, fault)] or [
        "all measurements are as in a healthy run"]
    if named == fault:
        return True, [f"Right: {named}. {FAULTS[fault].what}", "What tells:", *tells,
                      f"Treatment: {FAULTS[fault].treatment}"]
    against = [f"{is_found}; {expected}" for is_so, is_found, expected in evidence(run, named)
               if not is_so]
    return False, [f"Wrong: it is not {named}.", *against, "What would have told:", *tells]


def diagnose(name, run, named, as_json=False):
    """Judge a diagnosis, print and count it → whether it is right."""
    kept = note(name, "diagnoses", named)
    right, lines = judge(name, run, named)
    lines.append(f"Measured: {len(kept['asked'])} ({', '.join(kept['asked']) or 'nothing'}). "
                 f"Diagnoses: {len(kept['diagnoses'])}.")
    test = {"name": f"patient {name}", "score": int(right), "max_score": 1,
            "output": "\n".join(lines)}
    print(json.dumps({"tests": [test], "extra_data": kept}, indent=2) if as_json
          else "\n    ".join(lines))
    return right


def menu(name):
    """Print what may be measured and which faults there are."""
    told = {what: (function.__doc__ or "").strip() for what, function in MEASUREMENTS.items()}
    show("\nmeasurements", told)
    show("\nfaults", {fault: row.what for fault, row in FAULTS.items()})
    print(f"\nNext: {python_m(f'lessons.patient {name} ask steps')}  or  diagnose FAULT. "
          "The patient `healthy` is there to compare.")


def dialogue(name, run):
    """Wait for measurements until a fault is named rightly, or nothing."""
    with suppress(EOFError):
        while word := input("\nA measurement, a fault, or Enter to end: ").strip():
            if word in MEASUREMENTS:
                ask(name, run, word)
            elif word not in FAULTS:
                print(f"{word}: neither{did_you_mean(word, [*MEASUREMENTS, *FAULTS])}")
            elif diagnose(name, run, word):
                return


def known(words, choices, kind):
    """Raises UserError for a word that is not among the choices, or for none at all."""
    for word in words or [""]:
        if word not in choices:
            raise UserError(f"{word or 'nothing'}: is no {kind}; expected one of "
                            f"{', '.join(choices)}{did_you_mean(word, choices)}")


@errors_in_one_line()
def main(argv=None):
    """The command."""
    parser = Parser("lessons.patient", __doc__)
    parser.add_argument("name", help="any word: it decides the fault; `healthy` has none")
    parser.add_argument("what", nargs="?", choices=["ask", "diagnose"], help="without it: a chart")
    parser.add_argument("words", nargs="*", help="measurements; or one fault")
    parser.add_argument("--json", action="store_true", help="of a diagnosis, for a grader")
    options = parser.parse_args(argv)
    name, what, words = options.name, options.what, options.words
    if what:
        known(words, *((MEASUREMENTS, "measurement") if what == "ask" else (FAULTS, "fault")))
    if what == "diagnose" and len(words) > 1:
        raise UserError(f"diagnose {' '.join(words)}: expected one fault")
    if options.json and what != "diagnose":
        raise UserError("--json: expected only with diagnose FAULT")
    run = admit(name)
    if what == "ask":
        for word in words:
            ask(name, run, word)
    elif what == "diagnose":
        sys.exit(0 if diagnose(name, run, words[0], options.json) else 1)
    else:
        show(f"patient {name}, {K} pairs a batch", chart(run))
        menu(name)
        if sys.stdin and sys.stdin.isatty() and sys.stdout.isatty():
            dialogue(name, run)


if __name__ == "__main__":
    main()
