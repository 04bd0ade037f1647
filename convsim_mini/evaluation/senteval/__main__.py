"""The command `python -m convsim_mini.evaluation.senteval RUN`."""

from ..command import main

if __name__ == "__main__":
    main("senteval", "--vectors", "--hidden", data="folder that SentEval's own script fills, with "
         "MR/, CR/, …, or with downstream/ or senteval/downstream/; perhaps stsbenchmark/ and "
         "snli_1.0/ beside these")
