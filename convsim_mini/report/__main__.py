"""python -m convsim_mini.report RUN… [--data DIR] [--out DIR]"""

from ..cli import errors_in_one_line
from .page import main

with errors_in_one_line():
    main()
