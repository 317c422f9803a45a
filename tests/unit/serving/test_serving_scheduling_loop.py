"""MainLoop: work of another thread is done on the loop, which may not answer."""

from __future__ import annotations

import asyncio
import threading

import pytest

from koordsched.server.main_loop import MainLoop, MainLoopBusyError


async def in_another_thread(loop: MainLoop) -> int:
    async def ident() -> int:
        return threading.get_ident()

    return await loop.run(ident, seconds=0.05)


async def test_work_of_another_thread_is_done_on_the_loop() -> None:
    loop = MainLoop()
    assert await asyncio.to_thread(lambda: asyncio.run(in_another_thread(loop))) == threading.get_ident()
    assert await loop.call(threading.get_ident) == threading.get_ident()


async def test_a_loop_that_does_not_answer_is_not_waited_for_for_ever() -> None:
    loop, found = MainLoop(), list[BaseException]()

    def ask() -> None:
        try:
            asyncio.run(in_another_thread(loop))
        except MainLoopBusyError as error:
            found.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()  # on the loop, which is blocked by it
    assert len(found) == 1


async def test_what_fails_on_the_loop_fails_for_whoever_asked() -> None:
    loop = MainLoop()

    async def fails() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        await asyncio.to_thread(lambda: asyncio.run(loop.run(fails)))
