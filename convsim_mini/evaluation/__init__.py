"""Anything that encodes in, figures out: one plain script per task, all with the same functions.

    find(data, run)                    the task's files in the folder `data`: name → source
    read(source)                       one of them, read: a data set
    scores(run, dataset, encode)       what is predicted: row → predictions
    baselines(run, dataset, vectors)   what it has to beat: row → predictions
    figures(dataset, predictions)      metric → (value, low, high), with the 95% interval or nan;
                                       the first metric is the one to compare systems by
    lead(dataset, one, other)          by how much it is higher for one: value, low, high, paired
    title(name, dataset)               the heading of the table
    note(name, dataset, scores)        what to know beside the figures, or ""

results.py calls them and makes every table. `encode` is a function from a list of n texts to
vectors (n, d) of any length. `run` is the Run that it encodes with, or None where it is another
library's. Replies and inference need a Run.

    from convsim_mini.evaluation.results import measured, show
    print(*map(show, measured(SentenceTransformer("…").encode, "DIR", ["sts"])), sep="\\n\\n")

`vectors` is a dict, row → word → vector, or None. A task that uses it also has `texts_of(dataset)`.

Read response.py, then sts.py, nli.py, cqa.py, senteval.py (its classifiers are scikit-learn's);
command.py is what their commands share, of_training.py what a training measures, and
mteb_plugin.py is for mteb. A new task is a file with these functions and a name in EVALUATIONS, by
which `evaluation` and `report` find it.
"""

EVALUATIONS = {
    "response": "picking the true reply among 100 (the paper's Table 1)",
    "sts": "semantic textual similarity (Tables 3 and 4; SemEval's years are ours)",
    "nli": "natural language inference (Table 2)",
    "cqa": "ranking forum questions (Table 6)",
    "senteval": "vectors as features of a classifier (SentEval's tasks; ours)",
}
