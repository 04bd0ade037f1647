"""Mistakes and accidents: every case beside the message that a user reads.

Each is one line on standard error and exit code 2, and leaves every file as it was.
"""

import gzip
import json
import runpy
import shutil
import sys
import zlib

import numpy as np
import pytest
import zstandard
from safetensors.numpy import load_file, save_file

from convsim_mini.fast.devices import device_module
from convsim_mini.common.cli import UserError, python_m
from convsim_mini.common.arrays_file import load_arrays, save_arrays
from convsim_mini.data.corpus import split_of, text_key
from convsim_mini.core.text import tokenize
from convsim_mini.evaluation.cqa import OWN as OWN_CQA
from convsim_mini.inference.index import build_index
from convsim_mini.inference.rows import rows_of_texts
from convsim_mini.training.run import load_run, save_matrix
from convsim_mini.inference.sentence_encoder import load

from conftest import SMALL, Finished, command

NEW = "--cache cache --run new --steps 4 --evaluations 1"    # with SMALL after every "train" below

CASES = [
    # options
    ("train --stepz 3", "unrecognized arguments: --stepz 3; did you mean --steps?"),
    ("train --optim.batchsize 3",
     "unrecognized arguments: --optim.batchsize 3; did you mean --optim.batch_size?"),
    ("train --batch_size 3",
     "unrecognized arguments: --batch_size 3; did you mean --optim.batch_size?"),
    ("train --lr 0.01", "unrecognized arguments: --lr 0.01; did you mean --optim.rate?"),
    ("train --learning-rate 0.01",
     "unrecognized arguments: --learning-rate 0.01; did you mean --optim.rate?"),
    ("train --preset chatt",
     "--preset chatt: expected chat, similarity, paper, paper-multitask, transformer, "
     "transformer-small; did you mean chat?"),
    ("train --preset reddit", "--preset reddit: expected chat, similarity, paper"),
    ("train --steps 0", "--steps 0: expected int >= 1"),
    ("train --steps many", "--steps many: expected int"),
    ("train --seed -1", "--seed -1: expected int >= 0"),
    ("train --seed 9223372036854775808",
     "--seed 9223372036854775808: expected int <= 9223372036854775807"),
    ("train --optim.rate inf", "--optim.rate inf: expected float <= 1e+38"),
    ("train --optim.rate nan", "--optim.rate nan: expected float > 0.0"),
    ("train --optim.table_rate 1e400", "--optim.table_rate 1e400: number out of range"),
    ("train --steps 1e400", "--steps 1e400: number out of range"),
    (f"train --steps {10**30}", f"--steps {10**30}: expected int <= {10**15}"),
    (f"train --steps {'9' * 5_000}", f"--steps {'9' * 200}…: integer value out of range"),
    (f"train --model.hidden {10**12}", f"--model.hidden {10**12}: expected int <= 65536"),
    ("train --model.layers 8 65537", "--model.layers ['8', '65537']: expected int <= 65536"),
    (f"train --optim.batch_size {2**31}", f"--optim.batch_size {2**31}: expected int <= {2**31-1}"),
    ("train --optim.optimizer [[]]", "--optim.optimizer [[]]: expected adaptive, sgd"),
    ("train --text.filters_off bott",
     "--text.filters_off ['bott']: expected long, not_alphabetic, link_or_mention, bot; did you"),
    ("train --device tpu", "--device tpu: expected cpu, gpu"),
    ("train --model.layers", "--model.layers: no layer is given"),
    ("train --model.layers 8 x", "--model.layers ['8', 'x']: expected int"),
    ("train --model.layers []", "--model.layers: no layer is given"),
    ("train --model.embedding_dim 0", "embedding_dim"),
    ("train --pairs good.tsv --optim.batch_size 3437",
     "--optim.batch_size 3437: expected 2 to 3436, the pairs to train on"),
    ("train --pairs good.tsv --optim.batch_size 1", "--optim.batch_size 1: expected 2 to 3436"),
    ("train --pairs good.tsv --optim.drop_at 0.5 --optim.dropped_batch_size 3437",
     "--optim.dropped_batch_size 3437: expected"),
    ("train --pairs good.tsv --optim.drop_at 0.5 --optim.dropped_batch_size -1",
     "dropped_batch_size"),
    ("train --resume run --steps 9", "--resume: expected a run's folder and no other option"),
    ("train --resume", "--resume: expected a run's folder"),
    # config files
    ("train --config none.json", "--config none.json: cannot be read as JSON"),
    ("train --config .", "--config .: cannot be read as JSON"),
    ("train --config cut.json", "--config cut.json: cannot be read as JSON"),
    ("train --config empty", "--config empty: cannot be read as JSON"),
    ("train --config deep.json",
     "--config deep.json: cannot be read as JSON (JSON nested too deeply)"),
    ("train --config latin-1.tsv", "--config latin-1.tsv: cannot be read as JSON"),
    ("train --config list.json", "--config list.json: holds no JSON object"),
    ("train --config negative.json", "--config negative.json: steps -4: expected int >= 1"),
    ("train --config unknown.json",
     "--config unknown.json: stepz: is no setting; did you mean steps?"),
    ("train --config group.json", "--config group.json: model: is no setting"),
    ("train --config number.json", "--config number.json: model: is no setting"),
    ("train --config pairs.json", "--config pairs.json: pairs None: expected array"),
    ("train --config nested.json",
     "--config nested.json: model.layers {'a': [{}]}: expected array"),
    ("train --config twice.json", "--config twice.json: model.model: is no setting; did you mean"),
    ("train --config preset.json", "--config preset.json: preset []: expected str"),
    ("train --config zero.json", "--config zero.json: 'a\\x00': no file can have this name"),
    ("train --config half.json", "'\\ud800': letters that utf-8, which this system writes, does"),
    ("train --config letter.json", "'\\ud800': letters that utf-8, which this system writes, does"),
    ("evaluation.sts run-null-config", "run-null-config/config.json: model: is no setting"),
    # names that are too long
    *((f"{line} {'x' * 300}", "xxx") for line in (
        "train --pairs", "train --pairs good.tsv --cache", "train --pairs good.tsv --run",
        "train --pairs good.tsv --data", "train --pairs good.tsv --task nli --nli", "train --init",
        "train --config", "train --resume", "encode run --file", "encode run hello --out",
        "encode run hello --search", "encode run hello --index", "evaluation.sts run --data",
        "evaluation.sts run --vectors", "evaluation.sts", "evaluation.cqa --data",
        "report run --out", "report run --data", "tune run --data", "export run --out")),
    # pair files
    ("train --pairs none.tsv", "none.tsv: cannot be read (No such file or directory)"),
    ("train --pairs folder.tsv", "folder.tsv: cannot be read: Is a directory"),
    ("train --pairs empty.tsv", "empty.tsv: is empty"),
    ("train --pairs empty.tsv.gz", "empty.tsv.gz: is empty"),
    ("train --pairs here.csv", "here.csv: holds no row below its header"),
    ("train --pairs empty", 'empty: unknown kind of file "empty"; expected pairs, one a line'),
    ("train --pairs binary.tsv",
     "binary.tsv: 20 of the first 20 lines are malformed, more than 1 in 100 (first: line 1:"),
    ("train --pairs binary.tsv.gz",
     "binary.tsv.gz: the compressed data is damaged or cut short after line 0"),
    ("train --pairs binary.tsv.zst",
     "binary.tsv.zst: the compressed data is damaged or cut short after line 0"),
    ("train --pairs cut.tsv.gz",
     "cut.tsv.gz: the compressed data is damaged or cut short after line "),
    ("train --pairs cut.tsv.zst",
     "cut.tsv.zst: the compressed data is damaged or cut short after line "),
    ("train --pairs flipped.tsv.zst",
     "flipped.tsv.zst: the compressed data is damaged or cut short after line "),
    ("train --pairs three.tsv",
     "three.tsv: 2000 of the first 2000 lines are malformed, more than 1 in 100 (first: line 1: "
     "3 columns, expected 2 (input TAB response))"),
    ("train --pairs latin-1.tsv", "latin-1.tsv: 200 of the first 200 lines are malformed"),
    ("train --pairs fields.jsonl",
     "fields.jsonl: cannot tell which columns hold input and response; it has input, reply; name"),
    ("train --pairs array.jsonl", "array.jsonl: is one JSON array, expected an object a line; a J"),
    ("train --pairs array.jsonl --columns question answer", "array.jsonl: is one JSON array, exp"),
    ("train --pairs array.json", 'array.json: unknown kind of file "array.json"; a JSON array'),
    ("train --pairs few.tsv", "few.tsv: 50 pairs are left after the filters"),
    ("train --pairs alike.tsv", "P@N needs 99 wrong responses beside each true one"),
    ("train --pairs good.tsv --cache here.csv/cache",
     "here.csv/cache: cannot be written (Not a directory)"),
    ("train --pairs good.tsv --run here.csv/run", "here.csv/run: cannot be made (Not a directory)"),
    ("train --pairs good.tsv --run /proc/run", "/proc/run: cannot be made ("),   # not even by root
    ("train --pairs good.tsv --cache /proc/cache", "/proc/cache: cannot be written ("),
    ("train --pairs good.tsv --run run", "run: exists already and is left as it is"),
    ("train --pairs good.tsv --data nowhere",
     "nowhere: holds no sts-train.csv, sts-dev.csv, sts-test.csv"),
    # run folders
    ("evaluation.sts nowhere", "nowhere: no such run folder"),
    ("evaluation.sts", "run"),
    ("evaluation.sts run --bogus 3", "--bogus"),
    ("evaluation.sts run-no-config", "run-no-config/config.json: is missing or damaged"),
    ("evaluation.sts run-cut-config", "run-cut-config/config.json: is missing or damaged"),
    ("evaluation.sts run-other-config",
     "run-other-config/config.json: model.layers is [17], but weights-000030.safetensors was "
     "trained with [16]; restore"),
    ("evaluation.sts run-no-vocabulary",
     "run-no-vocabulary/vocabulary.json: is missing or damaged"),
    ("evaluation.sts run-cut-vocabulary",
     "run-cut-vocabulary/vocabulary.json: is missing or damaged"),
    ("evaluation.sts run-half-vocabulary",
     "run-half-vocabulary/vocabulary.json: is missing or damaged"),
    ("evaluation.sts run-list-vocabulary",
     "run-list-vocabulary/vocabulary.json: holds no JSON object"),
    ("evaluation.sts run-short-vocabulary",
     "run-short-vocabulary/vocabulary.json: is not the one that weights-000030"),
    ("evaluation.sts run-no-weights", "run-no-weights: holds no weights-*.safetensors"),
    ("evaluation.sts exported", "exported: is no run folder, for it holds no config.json; it is an "
     "exported one, and its README.md says how"),
    ("train --resume exported", "exported: is no run folder, for it holds no config.json; it is"),
    ("encode . hello", ".: is no run folder, for it holds no config.json; train one"),
    ("evaluation.sts foreign", "foreign/config.json: model_type: is no setting"),
    ("encode run-nan hello", "the model's vectors are not finite: its weights are damaged"),
    ("evaluation.sts run-cut-weights",
     "run-cut-weights/weights-000030.safetensors: is missing, damaged or cannot be read"),
    ("evaluation.sts run-empty-weights",
     "run-empty-weights/weights-000030.safetensors: is missing, damaged"),
    ("evaluation.sts run-flipped-weights",
     "run-flipped-weights/weights-000030.safetensors: is missing, damaged or cannot be read "
     "(its checksum is wrong)"),
    ("evaluation.sts run-swapped-weights",
     "weights-000030.safetensors: holds no weights; restore the files of one run"),
    ("evaluation.sts run-unwritable",
     "run-unwritable/sts_own_set.png: is no file that could be replaced"),
    ("evaluation.sts run-newer",
     "run-newer/weights-000030.safetensors: was written by another version of convsim_mini "
     "(format 99, expected "),
    ("evaluation nowhere", "nowhere: no such run folder"),
    ("evaluation run --on stz", "argument --on: invalid choice: 'stz'"),
    ("evaluation run --on sts --data sts-nan", 'sts-nan/sts-dev.csv, line 2: genre "main-news"'),
    ("evaluation.response run --data .", "unrecognized arguments: --data ."),
    ("evaluation.response run-no-weights", "run-no-weights: holds no weights"),
    ("evaluation.response run-other-pairs",
     "run-other-pairs: the pair files are not those that this run was trained on"),
    ("train --resume nowhere", "nowhere: no such run folder"),
    ("train --resume run-no-config", "run-no-config/config.json: is missing or damaged"),
    ("train --resume run-no-state", "run-no-state/resume-000030.safetensors: is missing, damaged"),
    ("train --resume run-flipped-state",
     "run-flipped-state/resume-000030.safetensors: is missing, damaged"),
    ("train --resume run-other-pairs",
     "run-other-pairs: the pair files are not those that this run was trained on"),
    # STS files
    ("evaluation.sts run --data nowhere", "nowhere: holds no sts-train.csv"),
    ("evaluation.sts run --data sts-columns",
     "sts-columns/sts-dev.csv, line 1: 2 columns, expected 7 or more"),
    ("evaluation.sts run --data sts-nan",
     'sts-nan/sts-dev.csv, line 2: genre "main-news" and score "nan", expected'),
    ("evaluation.sts run --data sts-binary",
     "sts-binary/sts-dev.csv: cannot be read as UTF-8 text"),
    ("evaluation.sts run --data sts-empty", "sts-empty/sts-dev.csv: is empty"),
    ("evaluation.sts run-tuned-elsewhere",
     "run-tuned-elsewhere/tuned.safetensors: was made for other weights"),
    ("evaluation.sts run-cut-matrix",
     "run-cut-matrix/tuned.safetensors: is missing, damaged or cannot be read"),
    ("tune", "run"),
    ("tune run --data sts-nan --strength 3", "unrecognized arguments: --strength 3"),
    ("tune run", "--data is missing: the folder with the STS Benchmark's"),
    ("tune run --data sts-nan", "sts-nan: expected sts-train.csv and sts-dev.csv, found dev"),
    # word vectors
    ("evaluation.sts run --vectors none.txt",
     "none.txt: cannot be read: No such file or directory"),
    ("evaluation.sts run --vectors folder.tsv", "folder.tsv: cannot be read: Is a directory"),
    ("evaluation.sts run --vectors cut.tsv.gz", "cut.tsv.gz"),
    ("evaluation.sts run --vectors five.vec",
     'five.vec, line 2: "the 1 2 3", expected a word and 1 numbers'),
    ("evaluation.sts run --vectors digits.vec",
     'digits.vec, line 2: "the 1 2 3", expected a word and 1 numbers'),
    ("evaluation.sts run --vectors short.vec",
     'short.vec, line 3: "a 1 2", expected a word and 3 numbers'),
    ("evaluation.cqa run --vectors short.vec",
     'short.vec, line 3: "a 1 2", expected a word and 3 numbers'),
    ("evaluation.cqa --vectors none.txt", "none.txt: cannot be read: No such file or directory"),
    # question ranking
    ("evaluation.cqa nowhere", "nowhere: no such run folder"),
    ("evaluation.cqa --data nowhere", "nowhere: holds no *.xml with labels"),
    ("evaluation.cqa --data cqa-cut", "cqa-cut/a.xml: cannot be read as XML"),
    ("evaluation.cqa --data cqa-entity",
     "cqa-entity/a.xml: defines or refers to entities, which are refused"),
    ("evaluation.cqa --data cqa-external",
     "cqa-external/a.xml: defines or refers to entities, which are refused"),
    ("evaluation.cqa --data cqa-no-label",
     "cqa-no-label/a.xml, OrgQuestion 1: a part is missing or wrong ('RELQ_RELEVANCE2ORGQ')"),
    ("evaluation.cqa --data cqa-other", "cqa-other/a.xml: holds no question"),
    # inference
    ("train --task multitask",
     "--task multitask: needs --nli, the folder with snli_1.0_train and snli_1.0_dev"),
    ("train --pairs good.tsv --nli nli", "--nli nli: no task reads it; name one, as with --task"),
    ("train --task nli --nli nowhere --pairs none.tsv",    # before the pairs are read
     "nowhere: holds no snli_1.0_train, snli_1.0_dev or snli_1.0_test"),
    ("train --task nli --nli nli-label --pairs good.tsv",
     'nli-label/snli_1.0_train.jsonl, line 2: gold_label "maybe", expected'),
    ("train --task nli --nli nli-field --pairs good.tsv",
     'nli-field/snli_1.0_train.jsonl, line 1: no text in the field "sentence2"'),
    ("train --task nli --nli nli-json --pairs good.tsv",
     "nli-json/snli_1.0_train.jsonl, line 1: is no JSON"),
    ("train --task nli --nli nlideep --pairs good.tsv",
     "nlideep/snli_1.0_train.jsonl, line 2: is no JSON object (JSON nested too deeply)"),
    ("train --task nli --nli nli-text --pairs good.tsv",
     'nli-text/snli_1.0_train.txt, line 3: no text in the field "sentence2"'),
    ("train --task nli --nli nli-bytes --pairs good.tsv",
     "nli-bytes/snli_1.0_train.txt, line 2: is not UTF-8 text"),
    ("train --task nli --nli nli-heading --pairs good.tsv",
     'nli-heading/snli_1.0_train.txt, line 2: no text in the field "gold'),
    ("train --task nli --nli nli-empty --pairs good.tsv",
     "nli-empty/snli_1.0_train.jsonl: holds no labelled pair"),
    ("train --task nli --nli nli-half --pairs good.tsv",
     "nli-half: training needs snli_1.0_train and snli_1.0_dev, found dev"),
    ("train --task nli --nli nli --pairs good.tsv --optim.nli_batch_size 9",
     "--optim.nli_batch_size 9: expected 1 to 3, the NLI pairs"),
    ("train --task nli --nli nli --nli_fraction 0", "nli_fraction"),
    ("train --task nli --nli nli --nli_share 1", "nli_share"),
    ("train --init nowhere", "nowhere: no such run folder; train one"),
    ("train --init exported", "exported: is no run folder, for it holds no config.json; it is"),
    ("train --init run-cut-config", "--init run-cut-config/config.json: cannot be read as JSON"),
    ("train --init run-no-weights", "run-no-weights: holds no weights"),
    ("train --init run --pairs few.tsv", "few.tsv: 50 pairs are left"),
    ("train --init run --text.words 17", "--text.words 17: a run that goes on with --init keeps"),
    ("train --pairs good.tsv --columns question", "columns question: expected two names"),
    ("train --init run --model.layers 17",
     "run: encoder.linear0.weight has shape (16, 16), but (16, 17) follows"),
    ("evaluation.nli nowhere", "nowhere: no such run folder"),
    ("evaluation.nli run", "run: was trained without NLI; train on from it with"),
    # SentEval's tasks and the years of STS
    ("evaluation.senteval run", "--data is missing: give the folder that SentEval's own script"),
    ("evaluation.senteval run --data nowhere",
     "nowhere: holds none of SentEval's tasks, such as MR/rt-polarity.pos, nor do nowhere/downs"),
    ("evaluation.senteval run --data senteval-count",
     "senteval-count/MR/rt-polarity.neg: 2 rows, expected the official 5,331; fetch it again"),
    ("evaluation.senteval run --data senteval-line",
     'senteval-line/TREC/TREC_10.label, line 500: "WHO:other who ?", expected a label of ABBR, '),
    ("evaluation.senteval run --data senteval-bytes",
     "senteval-bytes/SST/binary/sentiment-train: cannot be read as utf-8-sig text"),
    ("evaluation.senteval run --data senteval-score",
     'senteval-score/downstream/STS/STSBenchmark/sts-dev.csv, line 1500: "main-news'),
    ("evaluation.senteval run --data senteval-line --hidden 0", "--hidden: invalid positive_int"),
    ("evaluation.sts_years run", "--data is missing: give the folder that SentEval's own script"),
    ("evaluation.sts_years run --data nowhere", "nowhere: holds no STS12-en-test or STS13-en-test"),
    ("evaluation.sts_years run --data years-count",
     "years-count/STS16-en-test/STS.gs.answer-answer.txt: 1 scores, expected the official 254"),
    ("evaluation.sts_years run --data years-line",
     'years-line/STS16-en-test/STS.gs.answer-answer.txt, line 2: score "high" of 2 columns, exp'),
    ("evaluation.sts_years run --data years-bytes",
     "years-bytes/STS16-en-test/STS.input.answer-answer.txt: cannot be read as UTF-8 text"),
    ("evaluation.sts_years run --data years-half",
     "years-half/STS16-en-test/STS.gs.answer-answer.txt: cannot be read as UTF-8 text"),
    # the report
    ("report", "run"),
    ("report nowhere", "nowhere: no such run folder"),
    ("report run --out here.csv/out", "here.csv/out: cannot be made (Not a directory)"),
    ("report run --data sts-nan", 'sts-nan/sts-dev.csv, line 2: genre "main-news" and score "nan"'),
    ("report.compare run", "run: expected two runs or more; name another one"),
    ("report.compare run run --data nowhere", "nowhere: holds no sts-train.csv, sts-dev.csv"),
    ("report.against_words run", "--data is missing: the folder with the STS Benchmark's sts-"),
    ("report.against_words run --data nowhere", "nowhere: holds no sts-train.csv, sts-dev.csv"),
    ("report.fractions", "run"),
    ("report.fractions --nli nowhere run", "--nli"),
    # the page that explores a run
    ("explore", "run"),
    ("explore nowhere", "nowhere: no such run folder"),
    ("explore run --index nowhere", "nowhere/meta.json: is missing or damaged"),
    # attention
    ("evaluation.attention run", "sentence"),
    ("evaluation.attention run hello", "run: is the run of a DAN, which has no attention"),
    ("train --encoder lstm", "lstm"),
    ("train --encoder transformer --model.embedding_dim 18 --model.heads 4",
     "--model.embedding_dim 18: expected an even"),
    ("train --encoder transformer --model.dropout 1",
     "--model.dropout 1.0: expected a share up to 0.99"),
    ("train --model.bag true", "--model.bag true: a DAN has none; use it with --encoder transf"),
    ("train --config run/config.json --encoder transformer",
     "--encoder transformer: another option or config file asks for"),
    ("train --config encoder.json",
     '--config encoder.json: "encoder" is an option of the command line alone'),
    # encoding
    ("encode", "run"),
    ("encode nowhere hello", "nowhere: no such run folder"),
    ("encode run --file none.txt", "none.txt: cannot be read: No such file or directory"),
    ("encode run --file empty", "empty: is empty"),
    ("encode run --file latin-1", "latin-1, line 1: is not UTF-8 text"),
    ("encode run --file array.json", 'array.json: unknown kind of file "array.json"; a JSON array'),
    ("encode run --file good.tsv", "more than 30 sentences: too many to compare"),
    ("encode run --file cut.tsv.gz --out out.npy",
     "cut.tsv.gz: the compressed data is damaged or cut short"),
    ("encode run --file latin-1 --out kept.npy", "latin-1, line 1: is not UTF-8 text"),
    ("encode run hello --out /proc/out.npy", "/proc/out.npy: cannot be written ("),
    ("encode run hello --out folder.tsv", "folder.tsv: is no file that could be replaced"),
    ("encode run hello --out /dev/null", "/dev/null: is no file that could be replaced"),
    ("encode run hello --out here.csv/out.npy", "here.csv/out.npy: cannot be written"),
    ("encode run hello --out x.npy --search good.tsv", "--search and --out: choose one"),
    ("encode run hello --file good.tsv", "give sentences as arguments or with --file, not both"),
    ("encode run --search none.txt hello", "none.txt: cannot be read"),
    ("encode run hello --index index --out x.npy", "--index and --out: choose one"),
    ("encode run --search hello --file good.tsv --index x", "give sentences as arguments or with"),
    ("encode run --file good.tsv --index index", "index: exists already and is left as it is"),
    ("encode run --file good.tsv --index here.csv/x", "here.csv/x: cannot be written"),
    ("encode run --file latin-1.tsv --index x", "latin-1.tsv: 200 of the first 200 lines are malf"),
    ("encode run --file cut.tsv.gz --index x", "cut.tsv.gz: the compressed data is damaged or cut"),
    ("encode run hello --index nowhere", "nowhere/meta.json: is missing or damaged"),
    ("encode run hello --index run", "run/meta.json: is missing or damaged"),
    ("encode run hello --index index-meta", "index-meta/meta.json: is missing or damaged"),
    ("encode run hello --index index-values", "index-values: is an index of another version;"),
    ("encode run hello --index index-cut", "index-cut: is damaged (vectors-1.npy is missing or"),
    ("encode run hello --index index-rows", "index-rows: is damaged (rows-1.jsonl is missing or"),
    ("encode run hello --index index-foreign",
     "index-foreign: is damaged (meta.json names other files than an index has"),
    ("encode run hello --index index-other",
     "index-other: was made by another run or with other options (different: step)"),
    ("encode run hello --top 0", "top"),
    ("chat nowhere", "nowhere: no such run folder"),
    ("chat run --replies none.csv", "none.csv: cannot be read"),
    ("chat run --replies index", "index: holds messages, expected replies; make it with encode"),
    ("chat run-cut-config", "config.json: is missing or damaged"),
]


def flipped(data, place=-30):
    return data[:place] + bytes([data[place] ^ 0x10]) + data[place:][1:]


def damage_file(name, change):
    """A function that changes the bytes of a file in a run's folder."""
    return lambda run: (run / name).write_bytes(change((run / name).read_bytes()))


def newer(run):
    path = run / "weights-000030.safetensors"
    about = json.dumps({"format": 99, "crc32": 0})
    save_file(load_file(path), path, {"convsim_mini": f"{zlib.crc32(about.encode())} {about}"})


def short_vocabulary(run):
    values = json.loads((run / "vocabulary.json").read_text())
    (run / "vocabulary.json").write_text(json.dumps(
        {**values, "words": values["words"][:-1], "counts": values["counts"][:-1]}))


NLI_PAIR = b'{"gold_label": "neutral", "sentence1": "a", "sentence2": "b"}\n'
HEADING = b"gold_label\tsentence1\tsentence2\n"
NLI_FILES = [
    ("", "train.jsonl", NLI_PAIR * 3), ("", "dev.jsonl", NLI_PAIR),
    ("-half", "dev.jsonl", NLI_PAIR),
    *((f"-{name}", f"train.{kind}", text) for name, kind, text in [
        ("label", "jsonl", NLI_PAIR + NLI_PAIR.replace(b"neutral", b"maybe")),
        ("field", "jsonl", NLI_PAIR.replace(b"sentence2", b"other")), ("json", "jsonl", b"{"),
        ("text", "txt", HEADING + b"neutral\ta\tb\n" + b"neutral\ta\n"),
        ("bytes", "txt", HEADING + b"neutral\t\xff\tb\n"),
        ("heading", "txt", b"label\tsentence1\tsentence2\n" + b"neutral\ta\tb\n"),
        ("empty", "jsonl", NLI_PAIR.replace(b"neutral", b"-"))]),
    *((f"-{name}", "dev.jsonl", NLI_PAIR)
      for name in ("label", "field", "json", "text", "bytes", "heading", "empty")),
]
YEAR_FILES = {
    f"years-{name}/STS16-en-test/STS.{kind}.answer-answer.txt": text for name, kind, text in [
        ("count", "input", b"one\ttwo\n"), ("count", "gs", b"3\n"),
        ("line", "input", b"one\ttwo\n" * 2), ("line", "gs", b"3\nhigh\n"),
        ("bytes", "input", b"caf\xe9\ttwo\n"), ("bytes", "gs", b"3\n"),
        ("half", "input", b"one\ttwo\n")]}
STS_ROW = b"main-news\tfile\t2012\t1\t%s\tone\ttwo\n"
SENTEVAL_FILES = {
    "senteval-count/MR/rt-polarity.neg": b"one\ntwo\n",
    "senteval-count/MR/rt-polarity.pos": b"one\ntwo\n",
    "senteval-line/TREC/train_5500.label": b"HUM:other who ?\n" * 5_452,
    "senteval-line/TREC/TREC_10.label": b"HUM:other who ?\n" * 499 + b"WHO:other who ?\n",
    **{f"senteval-bytes/SST/binary/sentiment-{part}": b"caf\xe9\t1\n" for part in ("train", "dev")},
    "senteval-score/downstream/STS/STSBenchmark/sts-train.csv": STS_ROW % b"3" * 5_749,
    "senteval-score/downstream/STS/STSBenchmark/sts-dev.csv":
        STS_ROW % b"3" * 1_499 + STS_ROW % b"5.1",
}
def not_finite(run):
    arrays, about = load_arrays(run / WEIGHTS)
    arrays["encoder.embedding.weight"][:] = np.nan
    del about["crc32"]
    save_arrays(run / WEIGHTS, arrays, about)
    for path in run.glob("all_but*"):
        path.unlink()


WEIGHTS, STATE = "weights-000030.safetensors", "resume-000030.safetensors"
DAMAGED_RUNS = {
    "no-config": lambda run: (run / "config.json").unlink(),
    "cut-config": damage_file("config.json", lambda data: data[:60]),
    "other-config": damage_file("config.json", lambda data: data.replace(
        b'"layers": [\n      16', b'"layers": [\n      17')),
    "null-config": damage_file("config.json", lambda data: b'{"model": null}'),
    "no-vocabulary": lambda run: (run / "vocabulary.json").unlink(),
    "cut-vocabulary": damage_file("vocabulary.json", lambda data: data[:500]),
    "half-vocabulary": damage_file("vocabulary.json", lambda data: b'{"words": ["a"]}'),
    "list-vocabulary": damage_file("vocabulary.json", lambda data: b'["a"]'),
    "short-vocabulary": short_vocabulary,
    "no-weights": lambda run: [path.unlink() for path in run.glob("weights-*")],
    "cut-weights": damage_file(WEIGHTS, lambda data: data[:500]),
    "empty-weights": damage_file(WEIGHTS, lambda data: b""),
    "flipped-weights": damage_file(WEIGHTS, flipped),
    "swapped-weights": lambda run: shutil.copy(run / STATE, run / WEIGHTS),
    "newer": newer, "nan": not_finite,
    "no-state": lambda run: (run / STATE).unlink(),
    "flipped-state": damage_file(STATE, flipped),
    "tuned-elsewhere": lambda run: save_matrix(
        load_run(run)._replace(about={"crc32": 7, "vocabulary": 7}), "tuned", np.eye(16)),
    "cut-matrix": lambda run: (run / "tuned.safetensors").write_bytes(b"\x08\x00"),
    "unwritable": lambda run: (run / "sts_own_set.png").mkdir(),
    "other-pairs": damage_file("config.json",
                               lambda data: data.replace(b"pairs.tsv", b"other.tsv")),
}

DAMAGED_INDEXES = {
    "": lambda index: None, "-other": lambda index: None,
    "-meta": damage_file("meta.json", lambda data: data[:20]),
    "-values": damage_file("meta.json", lambda data: b"{}"),
    "-foreign": damage_file("meta.json", lambda data: data.replace(
        b'"crc32": {', b'"crc32": {"../run/config.json": 0, ')),
    "-cut": damage_file("vectors-1.npy", lambda data: data[:64]),
    "-rows": lambda index: (index / "rows-1.jsonl").unlink(),
}


def alike(pairs):
    """Pairs of whose dev responses a third are one text."""
    split = {text: split_of(text_key(" ".join(tokenize(text)))) for text, _ in pairs}
    dev = [(text, response if n % 3 else "yes.") for n, (text, response) in
           enumerate([pair for pair in pairs if split[pair[0]] == "dev"][:100])]
    return dev + [pair for pair in pairs if split[pair[0]] != "dev"]


@pytest.fixture(scope="module")
def workshop(tmp_path_factory, pairs, write_tsv, pair_file, cache_folder, trained):
    """A folder with everything that the cases name."""
    folder = tmp_path_factory.mktemp("workshop")
    text = pair_file.read_bytes()
    zstd = zstandard.ZstdCompressor(write_checksum=True).compress(text)
    xml = OWN_CQA.read_bytes()
    row = "main-news\tfile\t2012\t1\t{}\tone\ttwo\n"
    files = {
        "good.tsv": text, "here.csv": b"a,b\n", "empty": b"", "empty.tsv": b"",
        "empty.tsv.gz": gzip.compress(b""),
        "binary.tsv": b"\x00\xff\xfe\x80\n" * 20, "binary.tsv.gz": b"\x00\xff\xfe\x80\n" * 20,
        "binary.tsv.zst": b"\x00\xff\xfe\x80\n" * 20, "cut.tsv.gz": gzip.compress(text)[:-2_000],
        "cut.tsv.zst": zstd[:-2_000], "flipped.tsv.zst": flipped(zstd, 20_000),
        "three.tsv": b"a\tb\tc\n" * 2_000,
        "latin-1": "café\n".encode("latin-1"),
        "latin-1.tsv": "café\toui\n".encode("latin-1") * 200,
        "fields.jsonl": b'{"input": "a", "reply": "b"}\n' * 200,
        "few.tsv": b"".join(text.splitlines(keepends=True)[:50]),
        "deep.json": b"[" * 100_000, "exported/modules.json": b"[]",
        "foreign/config.json": b'{"model_type": "bert"}',
        "array.jsonl": b'[{"question": "a", "answer": "b"}]', "array.json": b"[]",
        **{f"nlideep/snli_1.0_{split}.jsonl": NLI_PAIR + b"[" * 100_000
           for split in ("train", "dev")},
        "five.vec": b" 5\nthe 1 2 3\n", "digits.vec": b"9" * 5_000 + b" 3\nthe 1 2 3\n",
        "cut.json": b'{"steps": ', "negative.json": b'{"steps": -4}',
        "unknown.json": b'{"stepz": 4}', "list.json": b"[1]",
        "group.json": b'{"model": null}', "number.json": b'{"model": 3}',
        "pairs.json": b'{"pairs": null}', "nested.json": b'{"model": {"layers": {"a": [{}]}}}',
        "twice.json": b'{"model": {"model": {"heads": 4}}}', "preset.json": b'{"preset": []}',
        "zero.json": rb'{"data": "a\u0000"}', "half.json": rb'{"data": "\ud800"}',
        "letter.json": rb'{"task": "\ud800"}',
        "encoder.json": b'{"encoder": "transformer"}',
        "cqa-cut/a.xml": xml[:2_000], "cqa-other/a.xml": b"<xml></xml>",
        "cqa-entity/a.xml": xml.replace(b"<!DOCTYPE xml [", b'<!DOCTYPE xml [<!ENTITY lol "lol">'),
        "cqa-external/a.xml": xml.replace(b"<!DOCTYPE xml [",
                                    b'<!DOCTYPE xml [<!ENTITY e SYSTEM "file:///etc/passwd">'),
        "cqa-no-label/a.xml": xml.replace(b"RELQ_RELEVANCE2ORGQ=", b"RELEVANCE="),
        "kept.npy": b"as it was",
        "short.vec": b"2 3\nthe 1 2 3\na 1 2\n",
        "sts-columns/sts-dev.csv": b"a\tb\n",
        "sts-binary/sts-dev.csv": b"\xff\xfe\x00", "sts-empty/sts-dev.csv": b"",
        **{f"nli{name}/snli_1.0_{file}": text for name, file, text in NLI_FILES},
        **SENTEVAL_FILES, **YEAR_FILES,
        "sts-nan/sts-dev.csv": (row.format(3) + row.format("nan")).encode(),
    }
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    (folder / "folder.tsv").mkdir()
    encoder = load(trained[0])
    for name, damage in DAMAGED_INDEXES.items():
        encoder.identity["step"] = 7 if name == "-other" else 30
        build_index(encoder, rows_of_texts(["one", "two"]), folder / f"index{name}")
        damage(folder / f"index{name}")
    write_tsv(folder / "alike.tsv", alike(pairs))
    for path in (pair_file.with_name("other.tsv"), folder / "other.tsv"):
        write_tsv(path, pairs[:3_500])
    for name, damage in {"": lambda run: None, **DAMAGED_RUNS}.items():
        damage(shutil.copytree(trained[0], folder / f"run-{name}".rstrip("-")))
    return folder


def in_process(line, folder, monkeypatch, capsys):
    """A command line as `command` runs it, without a new process; → Finished."""
    module, *arguments = line.split()
    if module == "train" and "--resume" not in arguments:
        arguments = [*SMALL, *NEW.split(), *arguments]
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", [module, *arguments])
    monkeypatch.setitem(sys.modules, f"convsim_mini.{module}", None)
    del sys.modules[f"convsim_mini.{module}"]
    capsys.readouterr()
    with pytest.raises(SystemExit) as exit:
        runpy.run_module(f"convsim_mini.{module}", run_name="__main__")
    return Finished(exit.value.code, *capsys.readouterr())


def snapshot(folder):
    """Every file under a folder but prepared corpora, with its bytes."""
    return {path: path.read_bytes() for path in folder.rglob("*")
            if path.is_file() and "cache" not in path.parts}


def assert_one_line(done, message):
    """Exit code 2, and one line that begins with "error:" and holds the message."""
    # a progress bar is overwritten after a carriage return
    lines = [line.rsplit("\r", 1)[-1] for line in done.stderr.rstrip("\n").split("\n")]
    lines = [line for line in lines if ": left out: " not in line]
    assert done.returncode == 2 and len(lines) == 1, done.stderr
    assert lines[0].startswith("error: ") and message in lines[0], lines[0]


@pytest.mark.parametrize("line, message", CASES, ids=[line for line, _ in CASES])
def test_a_mistake_is_one_line_and_leaves_every_file_as_it_was(
        workshop, monkeypatch, capsys, line, message):
    before = snapshot(workshop)
    done = in_process(line, workshop, monkeypatch, capsys)
    assert snapshot(workshop) == before
    if "scikit-learn is missing" in done.stderr:              # SentEval's first line then
        pytest.skip("scikit-learn is missing")
    assert_one_line(done, message)


def test_the_same_from_a_process_of_its_own(workshop):
    done = command("evaluation.sts", "run-cut-weights", cwd=workshop)
    assert_one_line(done, "run-cut-weights/weights-000030.safetensors: is missing, damaged")


def test_a_gpu_that_is_not_there_is_one_line(workshop, monkeypatch, capsys):
    try:
        device_module("gpu")
    except UserError:
        done = in_process("train --pairs good.tsv --device gpu", workshop, monkeypatch, capsys)
        assert_one_line(done, "--device gpu: CuPy ")
        assert python_m("pip install ") in done.stderr
        assert not (workshop / "new").exists()
    else:
        pytest.skip("this machine has a GPU")
