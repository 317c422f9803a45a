"""Means and intervals, and what is written of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyarrow import parquet

from koordsched.framework.tooling import Figure
from koordsched.simulate.command import SimulateOptions
from koordsched.simulate.summary import render
from koordsched.sweep.folder import PlannedRun, ResultFolder
from koordsched.sweep.format import ConfigurationSource, SweepInput
from koordsched.sweep.results import sections_of, write_parquet
from koordsched.sweep.run import RunRecord
from koordsched.sweep.statistics import interval, statistics_of

SOURCE = SweepInput("trace", SimulateOptions(), ())


def done(values: dict[str, list[float]], label: str = "bound") -> list[tuple[PlannedRun, RunRecord]]:
    """Return runs of seeds 0, 1, ... with these values by configuration."""
    return [
        (
            PlannedRun(SOURCE, ConfigurationSource(name, "", b""), seed, f"{name}-{seed}"),
            RunRecord(
                figures=[Figure(label, value)], summary={"bound": value, "gpu": {"models": [{"model": "T4", "idle": seed}]}}, notes=[]
            ),
        )
        for name, each in values.items()
        for seed, value in enumerate(each)
    ]


def test_an_interval_is_students() -> None:
    found = interval([1.0, 2.0, 3.0])  # s = 1; t of 2 degrees of freedom at 97.5 %: 4.302653; 4.302653 / sqrt(3) = 2.484138
    assert found.mean == 2.0
    assert found.low == pytest.approx(2 - 2.484138, abs=1e-6)
    assert found.high == pytest.approx(2 + 2.484138, abs=1e-6)


def test_ten_values_have_the_percentile_of_nine_degrees_of_freedom() -> None:
    found = interval([0.0, 2.0] * 5)  # s = sqrt(10 / 9); t = 2.262157; half = t / 3
    assert found.high == pytest.approx(1 + 2.262157 / 3, abs=1e-6)


def test_one_value_has_no_interval() -> None:
    assert (interval([3.0]).low, interval([3.0]).high) == (None, None)


def test_configurations_are_compared_seed_by_seed() -> None:
    base, other = statistics_of(done({"base": [10, 20, 30], "other": [11, 21, 31]}))
    assert base.difference is None
    assert other.difference is not None
    assert (other.difference.mean, other.difference.low, other.difference.high) == (1, 1, 1), "however much the seeds differ"


def test_only_seeds_that_both_have_are_compared() -> None:
    _, other = statistics_of(done({"base": [10, 20], "other": [11, 21, 99]}))
    assert other.runs == 3
    assert other.difference is not None
    assert other.difference.mean == 1


def test_the_table_says_which_differences_chance_does_not_explain() -> None:
    text = render(sections_of(done({"base": [10, 12, 11], "sure": [20, 22, 21], "unsure": [9, 14, 11]})))
    lines = [line.split() for line in text.splitlines()]
    assert ["bound", "11.00", "±", "2.48", "21.00", "±", "2.48", "11.33", "±", "6.25"] in lines
    assert ["bound", "+10.00", "±", "0.00", "*", "+0.33", "±", "3.79"] in lines


def test_shares_are_shown_in_percent() -> None:
    runs = [
        (run, RunRecord(figures=[Figure("allocated", figure.value, is_share=True)], summary={}, notes=[]))
        for run, record in done({"only": [0.5, 0.5]})
        for figure in record.figures
    ]
    assert "allocated  50.00 ± 0.00 %" in render(sections_of(runs))


def test_a_row_of_parquet_is_a_run_and_a_column_a_number_of_its_summary(tmp_path: Path) -> None:
    write_parquet(tmp_path, done({"base": [10, 20], "other": [11, 21]}))
    assert parquet.read_table(tmp_path / "runs.parquet").to_pylist() == [
        {"input": "trace", "configuration": name, "seed": seed, "bound": bound, "gpu.models.T4.idle": seed}
        for name, seed, bound in (("base", 0, 10), ("base", 1, 20), ("other", 0, 11), ("other", 1, 21))
    ]
    row = parquet.read_table(tmp_path / "statistics.parquet").to_pylist()[1]
    assert (row["configuration"], row["figure"], row["runs"], row["mean"], row["differenceMean"]) == ("other", "bound", 2, 16, 1)


def test_a_number_that_some_runs_lack_is_null_there(tmp_path: Path) -> None:
    first, second = done({"base": [10, 20]})
    write_parquet(tmp_path, [(first[0], RunRecord(figures=[], summary={"bound": 1, "fairness": {"index": 0.5}}, notes=[])), second])
    assert parquet.read_table(tmp_path / "runs.parquet").column("fairness.index").to_pylist() == [0.5, None]


def test_a_result_that_is_cut_short_is_missing(tmp_path: Path) -> None:
    folder = ResultFolder(str(tmp_path))
    ((run, record),) = done({"base": [10]})
    folder.write(run, record)
    assert folder.read(run) == record
    (file,) = (tmp_path / "runs").iterdir()
    file.write_bytes(file.read_bytes()[:-20])
    assert folder.read(run) is None
