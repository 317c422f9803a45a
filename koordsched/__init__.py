"""koordsched: Koordinator's scheduler in Python with a Cython hot path."""

import os

__version__ = "0.1.0"

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
"""Read by numpy's OpenBLAS when numpy is first imported. It would start a thread per CPU (0.1 s of CPU), and nothing here calls BLAS."""
