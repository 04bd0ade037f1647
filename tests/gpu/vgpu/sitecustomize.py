"""Python runs this at its start where this folder is on PYTHONPATH, in subprocesses too."""

import vgpu

vgpu.install()
