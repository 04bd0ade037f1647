"""Anything that encodes in, scores out: one plain script a task, all of one shape.

    find(data, run)                    the task's files in the folder `data`: name → source
    read(source)                       one of them, read: a data set
    scores(encode, dataset)            what is predicted: row name → predictions
    baselines(run, dataset, vectors)   what the run has to beat: row name → predictions
    summary(name, dataset, scores, baselines)                  the text to print

`encode` is a Run, or a function from a list of n texts to vectors (n, d), of whatever library:

    from convsim_mini.evaluation import command, sts
    command.evaluate("sts", SentenceTransformer("…").encode, sts.find("DIR"))

`run` is the Run, or None. Replies and inference need what a Run has beside its vectors. `vectors`
is a dict, row name → word → vector, or None. A task that uses it has a sixth function,
`texts_of(dataset)`.

Read response.py, then sts.py, nli.py, cqa.py, senteval.py (its classifiers are scikit-learn's);
command.py is what their commands share, after_training.py what a training ends with, and
mteb_plugin.py is for mteb. A new task is a file of this shape and a name in EVALUATIONS, by which
`evaluation` and `report` find it.
"""

EVALUATIONS = {
    "response": "picking the true reply among 100 (the paper's Table 1)",
    "sts": "semantic textual similarity (Tables 3 and 4; SemEval's years are ours)",
    "nli": "natural language inference (Table 2)",
    "cqa": "ranking forum questions (Table 6)",
    "senteval": "vectors as features of a classifier (SentEval's tasks; ours)",
}
