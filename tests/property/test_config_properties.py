"""Durations, merging and flags hold what they promise for all inputs."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from koordsched.config.duration import Duration, DurationError, format_nanoseconds, parse_nanoseconds
from koordsched.config.flags import FLAGS, FlagError, parse_flags
from koordsched.config.plugin_sets import merge_plugin_set
from koordsched.config.types import PluginEntry, PluginSet

plugins = st.builds(PluginEntry, name=st.sampled_from("ABCDEF"), weight=st.integers(min_value=0, max_value=9))
some = st.lists(plugins, max_size=6).map(tuple)
distinct = st.lists(plugins, max_size=6, unique_by=lambda plugin: plugin.name).map(tuple)


@given(st.integers(min_value=-(2**63) + 1, max_value=2**63 - 1))
def test_a_written_duration_reads_back(nanoseconds: int) -> None:
    assert parse_nanoseconds(format_nanoseconds(nanoseconds)) == nanoseconds


@given(st.text(alphabet="0123456789.hmsnuµ+- x", max_size=12) | st.text(max_size=12))
def test_any_text_is_a_duration_or_refused(text: str) -> None:
    try:
        duration = Duration.parse(text)
    except DurationError:
        return
    assert abs(duration) <= 2**63 / 10**9
    assert Duration.parse(duration.text).text == duration.text


@given(distinct, some, st.lists(st.sampled_from([*"ABCDEF", "*"]), max_size=3))
def test_merged_plugins_are_the_users_and_the_defaults_that_stay(
    default: tuple[PluginEntry, ...], custom: tuple[PluginEntry, ...], off: list[str]
) -> None:
    disabled = tuple(PluginEntry(name=name) for name in off)
    merged = merge_plugin_set(PluginSet(enabled=default), PluginSet(enabled=custom, disabled=disabled))
    assert merged.disabled == disabled
    staying = [] if "*" in off else [plugin.name for plugin in default if plugin.name not in off]
    assert [plugin.name for plugin in merged.enabled][: len(staying)] == staying
    assert all(plugin in merged.enabled for plugin in custom)
    assert len(merged.enabled) == len(custom) + len([name for name in staying if name not in {plugin.name for plugin in custom}])


words = st.sampled_from([*(f"--{name}" for name in FLAGS), "-v", "-s", "-fd", "--", "-", "--=", "=", ""])
arguments = st.lists(words | st.text(max_size=8) | st.builds(lambda word, value: f"{word}={value}", words, st.text(max_size=8)), max_size=6)


@example(["--allow-metric-labels-manifest=\x00"])
@given(arguments)
def test_any_command_line_is_understood_or_refused(line: list[str]) -> None:
    errors: tuple[str, ...] = ("",)
    try:
        flags = parse_flags(line)
    except FlagError as refused:
        errors = refused.errors
    else:
        errors = ()
        assert flags.given <= set(FLAGS)
    assert all(errors)
