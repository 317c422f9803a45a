"""koordsched: Koordinator's scheduler in Python with a Cython hot path."""

__version__ = "0.1.0"
