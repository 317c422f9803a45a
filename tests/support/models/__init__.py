"""Plain-Python twins of compiled kernels, written from the specification: lists and sorts, nothing kept, nothing fast."""
