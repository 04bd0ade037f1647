"""Figures from the literature that the report sets beside ours: × 100, as printed there.

Rows of STS, SNLI and CQA called "Reddit" and "Reddit+SNLI" are the paper's own, all by its
Transformer.
"""

# Yang et al. 2018, Table 1: P@1, P@3, P@10
RESPONSE = {"DAN": (56.1, 70.2, 83.6), "Transformer": (65.7, 78.7, 89.8)}

SNLI = {                               # Table 2: accuracy on test
    "Reddit+SNLI": 84.1,
    "InferSent": 84.5,
    "KIM ensemble": 89.0,
    "Gumbel TreeLSTM": 86.0,
}
SNLI_PAIRS = 550_152                   # §4.2: to train on

STS = {                                # Tables 3 and 4: r on all, captions, forums, news
    "Reddit": {"dev": (76.2, 81.5, 75.1, 63.2), "test": (73.1, 81.6, 75.9, 57.8)},
    "Reddit+SNLI": {"dev": (81.4, 88.5, 75.6, 64.6), "test": (78.2, 89.1, 76.4, 58.5)},
    "Reddit tuned": {"dev": (80.9, 84.3, 75.4, 72.1), "test": (78.1, 84.3, 76.2, 66.8)},
    "Reddit+SNLI tuned": {"dev": (83.5, 88.8, 75.9, 73.1), "test": (80.8, 89.4, 76.7, 66.7)},
}
STS_SYSTEMS = {                        # Table 3: dev, test
    "CNN (HCTI)": (83.4, 78.4),
    "InferSent": (80.1, 75.8),
    "Sent2Vec": (78.7, 75.5),
    "SIF": (80.1, 72.0),
    "PV-DBOW": (72.2, 64.9),
    "C-PHRASE": (74.3, 63.9),
    "ECNU": (84.7, 81.0),
    "BIT": (82.9, 80.9),
}

CQA = {                                # Table 6: MAP on the test set of SemEval 2017
    "Reddit+SNLI": 47.42,
    "Reddit": 47.07,
    "KeLP-contrastive1": 49.00,
    "SimBow-contrastive2": 47.87,
    "SimBow-primary": 47.22,
}

# Cer et al. 2017, Table 12: kind of error, people's score, pair
DIFFICULT = (
    ("word sense", 5.0, "There is a cook preparing food.", "A cook is making food."),
    ("attribute importance", 4.0, "The man is in a deserted field.",
     "The man is outside in the field."),
    ("negation", 3.0, "A girl in water without goggles or a swimming cap.",
     "A girl in water, with goggles and swimming cap."),
    ("compositional meaning", 1.8, "A man is carrying a canoe with a dog.",
     "A dog is carrying a man in a canoe."),
    ("semantic blending", 1.0, "There is a young girl.", "There is a young boy with the woman."),
    ("word sense", 0.2, "The kids are at the theater watching a movie.",
     "it is picture day for the boys"),
)
