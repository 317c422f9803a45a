"""The scheduling framework: the contract of plugins (`interface`, `status`), what a cycle carries (`cycle_state`, `diagnosis`), how a
profile runs its plugins (`profile`), and what is kept between cycles (`shapes`, `waiting`)."""
