"""Tests that wait run in virtual time."""

from support.virtual_loop import clock, no_task_left, pytest_asyncio_loop_factories

__all__ = ["clock", "no_task_left", "pytest_asyncio_loop_factories"]
