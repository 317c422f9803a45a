"""Async tests of access run in virtual time."""

from __future__ import annotations

from support.virtual_loop import clock, no_task_left, pytest_asyncio_loop_factories

__all__ = ["clock", "no_task_left", "pytest_asyncio_loop_factories"]
