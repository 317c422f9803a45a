"""`PYTHONPATH=bench:tests python -m mutate`: the command line."""

from __future__ import annotations

import argparse
import fnmatch
import sys
from pathlib import Path

import pytest
from mutmut.configuration import config
from rich.console import Console

from mutate.report import Verdicts
from mutate.sampling import python_files, sample
from mutate.session import Options, Session, state_of

TABLE_WIDTH = 160


def main() -> int:
    arguments = _parser().parse_args()
    folder = Path("build/mutate")
    folder.mkdir(parents=True, exist_ok=True)
    paths = list(python_files([str(path) for path in config().source_paths]))
    chosen = [path for path in paths if fnmatch.fnmatch(path, arguments.only)]
    drawn = sample(chosen, arguments.sample, arguments.seed)
    mutants = [mutant for mutant in drawn.mutants if arguments.mutant in mutant.key]
    verdicts = Verdicts(folder / "verdicts.jsonl", state_of([*paths, *map(str, Path("tests").rglob("*.py"))]))
    session = Session(Options(folder, arguments.jobs, arguments.seconds), paths, mutants, verdicts)
    pytest_arguments = ["tests", "--ignore=tests/e2e", "-p", "no:cacheprovider", "-p", "no:terminal", "--capture=no"]
    pytest_arguments += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # hypothesis is imported before pytest looks for its plugins
    code = pytest.main(pytest_arguments, plugins=[session])
    if code not in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}:
        return int(code)
    console = Console(width=TABLE_WIDTH)
    share = verdicts.show(mutants, console, every=arguments.all)
    console.print(drawn.out_of_reach)
    return 0 if share >= arguments.target else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mutate", description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--sample", type=int, default=300, metavar="N", help="how many mutants")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="of these files only, like '*/queue/*'")
    parser.add_argument("--mutant", default="", metavar="KEY", help="of the sample, only those with this in their name")
    parser.add_argument("--seconds", type=float, default=40.0, help="of tests at most for a mutant, the quick ones first")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time")
    parser.add_argument("--target", type=float, default=0.9, help="share that must die for an exit code of 0")
    parser.add_argument("--all", action="store_true", help="list the killed ones too, each with the test")
    return parser


sys.exit(main())
