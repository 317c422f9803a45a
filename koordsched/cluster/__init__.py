"""The port to a cluster (`port.py`) and its adapters; `informer.py` keeps a store true to a list and its watch on either of them."""
