"""How the benchmarks are run."""

from measuring import pytest_configure, pytest_terminal_summary

__all__ = ["pytest_configure", "pytest_terminal_summary"]
