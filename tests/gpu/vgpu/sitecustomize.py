"""Python runs this at its start where this folder is on PYTHONPATH, in subprocesses too."""

import os
import sys

import vgpu

vgpu.install()
if os.environ.get("VGPU_HIDDEN"):
    del sys.modules["vgpu"]    # as on a real card
