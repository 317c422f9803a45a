"""Bytes that were something once: what a broken or hostile peer sends is near to what a good one does."""

from __future__ import annotations

from hypothesis import strategies as st

PIECES = st.sampled_from(
    [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\0", b'"', b"\\", b"\\ud800", b"{", b"[" * 3000, b"null", b"1e999", b"\n"]
) | st.binary(max_size=3)


@st.composite
def damaged(draw: st.DrawFn, whole: st.SearchStrategy[bytes]) -> bytes:
    """Replace some stretches of the bytes by others."""
    data = draw(whole)
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(data)))
        data = data[:start] + draw(PIECES) + data[start + draw(st.integers(0, 3)) :]
    return data
