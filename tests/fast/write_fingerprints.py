"""Write convsim_mini/fast/fingerprints.json if every twin returns what core does.

    python tests/fast/write_fingerprints.py
"""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from convsim_mini.fast.fingerprints import FILE, fingerprint, name_of
from convsim_mini.fast.twins import TWINS


def of_today():
    """What the file should contain: name → fingerprint of each function that has a twin."""
    return {name_of(plain): fingerprint(plain) for plain in TWINS}


if __name__ == "__main__":
    # Without fingerprints no twin would run, and core would be compared with itself.
    before, new = FILE.read_text(encoding="utf-8"), json.dumps(of_today(), indent=2)
    FILE.write_text(f"{new}\n", encoding="utf-8")
    code = subprocess.call([sys.executable, "-m", "pytest", "-q", "tests/fast/test_twins.py",
                            "tests/gpu/test_kernels.py"], cwd=ROOT)
    if code:
        FILE.write_text(before, encoding="utf-8")
        sys.exit("the twins differ from core: the fingerprints stay as they were")
