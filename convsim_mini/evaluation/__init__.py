"""A trained run in, scores out: one plain script a task, all of one shape.

    find(data, run)                    the task's files in the folder `data`: name → source
    read(source)                       one of them, read: a data set
    scores(run, dataset)               what the run's model predicts: row name → predictions
    baselines(run, dataset, vectors)   what the run has to beat: row name → predictions
    summary(name, dataset, scores, baselines)                  the text to print

`vectors` is a dict, row name → word → vector, or None. A task that uses it has a sixth function,
`texts_of(dataset)`. A task with a picture has `draw(run, name, dataset, scores)`.

Read response.py, then sts.py, nli.py, cqa.py, senteval/ (its classifiers are scikit-learn's);
command.py is what their commands share; senteval/plugin.py is for SentEval's own engine,
mteb_plugin.py for mteb. A new task is a file of this shape and a name in EVALUATIONS.
"""

EVALUATIONS = {
    "response": "picking the true reply among 100 (the paper's Table 1)",
    "sts": "semantic textual similarity (Tables 3 and 4)",
    "nli": "natural language inference (Table 2)",
    "cqa": "ranking forum questions (Table 6)",
    "sts_years": "similarity in SemEval's years 2012 to 2016 (ours)",
    "senteval": "vectors as features of a classifier (SentEval's tasks; ours)",
}
