"""What a sweep has as its result: two Parquet files, JSON, and tables.

All of it is made of the runs that are done, in the order of the sweep's file, and of nothing else: neither times nor workers are in it.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from koordsched.files import write_atomically
from koordsched.framework.tooling import Section
from koordsched.simulate.result import json_text
from koordsched.sweep.statistics import CONFIDENCE, Done, FigureStatistics, Interval, statistics_of

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow

RUNS_FILE, STATISTICS_FILE = "runs.parquet", "statistics.parquet"
NONE = "-"


def write_parquet(folder: Path, done: Done) -> None:
    """Write a row for each run (its numbers), and one for each input, configuration and figure (its statistics). OSError."""
    import pyarrow  # noqa: PLC0415  # an optional package, slow to import

    rows = [
        {"input": run.source.name, "configuration": run.configuration.name, "seed": run.seed, **dict(_numbers(record.summary))}
        for run, record in done
    ]
    columns = dict.fromkeys(name for row in rows for name in row)  # from_pylist would take those of the first row
    _write(folder / RUNS_FILE, pyarrow.table({name: [row.get(name) for row in rows] for name in columns}))
    types: list[tuple[str, pyarrow.DataType]] = [
        *((name, pyarrow.string()) for name in ("input", "configuration", "figure")),
        ("isShare", pyarrow.bool_()),
        ("runs", pyarrow.int64()),
        *((name, pyarrow.float64()) for name in ("mean", "low", "high", "differenceMean", "differenceLow", "differenceHigh")),
    ]
    made = [_statistics_row(each) for each in statistics_of(done)]
    _write(folder / STATISTICS_FILE, pyarrow.Table.from_pylist(made, pyarrow.schema(types)))


def _statistics_row(each: FigureStatistics) -> dict[str, Any]:
    difference = each.difference
    return {
        "input": each.input,
        "configuration": each.configuration,
        "figure": each.figure,
        "isShare": each.is_share,
        "runs": each.runs,
        "mean": each.value.mean,
        "low": each.value.low,
        "high": each.value.high,
        "differenceMean": None if difference is None else difference.mean,
        "differenceLow": None if difference is None else difference.low,
        "differenceHigh": None if difference is None else difference.high,
    }


def _write(path: Path, table: pyarrow.Table) -> None:
    from pyarrow import parquet  # noqa: PLC0415  # an optional package, slow to import

    buffer = io.BytesIO()
    parquet.write_table(table, buffer, compression="zstd")
    write_atomically(path, buffer.getvalue())


def _numbers(value: Any, path: str = "") -> Iterator[tuple[str, int | float]]:
    """Yield the numbers of a summary by the path to each. An item of a list is found by its first text, such as the model of GPUs."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _numbers(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for item in value:
            name = next((text for text in item.values() if isinstance(text, str)), None) if isinstance(item, dict) else None
            if name is not None:
                yield from _numbers(item, f"{path}.{name}")
    elif isinstance(value, (int, float)):
        yield path, value


def json_of(done: Done) -> bytes:
    """Return the statistics and all runs as JSON, indented, with a newline at its end."""
    runs = [
        {"input": run.source.name, "configuration": run.configuration.name, "seed": run.seed, "summary": record.summary}
        for run, record in done
    ]
    return json_text({"confidence": CONFIDENCE, "statistics": statistics_of(done), "runs": runs})


def sections_of(done: Done) -> list[Section]:
    """Return for each input the table of the means and that of the differences from the first configuration."""
    statistics = statistics_of(done)
    made = []
    for name in dict.fromkeys(each.input for each in statistics):
        of_input = [each for each in statistics if each.input == name]
        configurations = list(dict.fromkeys(each.configuration for each in of_input))
        made.append(_means(name, of_input, configurations))
        if len(configurations) > 1:
            made.append(_differences(name, of_input, configurations))
    return made


def _means(name: str, statistics: Sequence[FigureStatistics], configurations: Sequence[str]) -> Section:
    cells = {(each.figure, each.configuration): _shown(each.value, each.is_share) for each in statistics}
    labels = dict.fromkeys(each.figure for each in statistics)
    rows = [(label, *(cells.get((label, configuration), NONE) for configuration in configurations)) for label in labels]
    runs = [max(each.runs for each in statistics if each.configuration == configuration) for configuration in configurations]
    seeds = str(runs[0]) if len(set(runs)) == 1 else "-".join(map(str, (min(runs), max(runs))))
    return Section(
        title=f"{name}: means of {seeds} seeds",
        columns=("", *configurations),
        align="<" + ">" * len(configurations),
        rows=rows,
        notes=[f"mean ± half of its {CONFIDENCE:.0%} confidence interval (Student's t over the seeds)."],
    )


def _differences(name: str, statistics: Sequence[FigureStatistics], configurations: Sequence[str]) -> Section:
    first, *others = configurations
    compared = [each for each in statistics if each.difference is not None]
    cells = {(each.figure, each.configuration): _difference(each) for each in compared}
    labels = dict.fromkeys(each.figure for each in compared)
    return Section(
        title=f"{name}: differences from {first}",
        columns=("", *others),
        align="<" + ">" * len(others),
        rows=[(label, *(cells.get((label, other), NONE) for other in others)) for label in labels],
        notes=["mean of the differences seed by seed ± half of its interval; shares in points. *: the interval does not hold 0."],
    )


def _difference(each: FigureStatistics) -> str:
    assert each.difference is not None
    scale = 100 if each.is_share else 1
    text = f"{scale * each.difference.mean:+.2f}{_half(each.difference, scale)}"
    return f"{text} {'*' if each.difference.is_above_or_below_zero else ' '}"


def _shown(value: Interval, is_share: bool) -> str:
    scale = 100 if is_share else 1
    return f"{scale * value.mean:.2f}{_half(value, scale)}{' %' if is_share else ''}"


def _half(value: Interval, scale: int) -> str:
    return "" if value.low is None or value.high is None else f" ± {scale * (value.high - value.low) / 2:.2f}"
