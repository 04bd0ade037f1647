"""How much memory training takes, measured in embedding tables: sizes, not times."""

import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

from convsim_mini import train
from convsim_mini.evaluation.after_training import summary
from convsim_mini.common.files import save_arrays

from conftest import parse_config

ROWS, WIDTH = 300_000, 16


def test_a_training_and_its_summary_hold_two_tables_at_a_time(arguments, tmp_path):
    options = [*map(str, arguments), "--text.bigrams", str(ROWS), "--steps", 20,
               "--evaluations", 1, "--run", tmp_path / "run"]
    train.train(parse_config([*map(str, arguments), "--steps", "1", "--run", f"{tmp_path}/warm"]))
    tracemalloc.start()                                       # imports do not count
    try:
        summary(train.train(parse_config([*map(str, options)])))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2.6 * 4 * ROWS * WIDTH    # the run's and the one before training


@pytest.mark.skipif(sys.platform != "linux", reason="/proc reports the peak")
def test_loading_arrays_takes_their_size_once(tmp_path):
    size = 1 << 26
    save_arrays(tmp_path / "table", {"table": np.ones((size // 64, 16), np.float32)}, {})
    measured = ("import re, sys; from convsim_mini.common.files import load_arrays; "
                "peak = lambda: int(re.search(r'VmHWM:\\s+(\\d+)', "
                "open('/proc/self/status').read())[1]); before = peak(); "
                "load_arrays(sys.argv[1]); print(peak() - before)")
    done = subprocess.run([sys.executable, "-c", measured, tmp_path / "table"], check=True,
                          capture_output=True, text=True)
    assert int(done.stdout) * 1_024 < 1.5 * size              # if the whole file is mapped: 2
