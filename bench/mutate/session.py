"""The pytest plugin that does the work: learns which test runs which line, then judges each mutant in a fork of the collected session."""

from __future__ import annotations

import ctypes
import gc
import hashlib
import importlib
import json
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec
import pytest
from coverage import Coverage, CoverageData
from hypothesis import Phase, settings

from mutate.report import Verdict, Verdicts
from mutate.sampling import Mutant
from mutate.scenarios import ScenarioFile, is_scenario_file
from mutate.swapping import exchange, exchanges

DATA_BYTES = 9 << 30  # running all tests for their coverage takes two thirds of it
TIMEOUT_FACTOR = 5.0  # times what the tests took before, and
GRACE_SECONDS = 20.0
POLL_SECONDS = 0.01
NEAR = 10.0
PR_SET_PDEATHSIG = 1  # linux/prctl.h


class Options(msgspec.Struct, frozen=True):
    """folder: where coverage and results are kept. seconds: of tests a mutant, as they took unchanged. jobs: forks at a time."""

    folder: Path
    jobs: int
    seconds: float


class Known(msgspec.Struct):
    """What is known of the tests. files: digest of each test file when it was run; seconds: of each test that passes."""

    sources: str = ""
    files: dict[str, str] = {}
    seconds: dict[str, float] = {}


class Session:
    """Runs instead of pytest's own loop."""

    def __init__(self, options: Options, paths: Sequence[str], mutants: Sequence[Mutant], verdicts: Verdicts) -> None:
        self._options = options
        self._paths = paths
        self._mutants = mutants
        self._verdicts = verdicts
        self._failed = ""
        self._known = Known()
        self._tests_by_line: dict[str, dict[int, list[str]]] = {}

    def pytest_sessionstart(self) -> None:
        """Before the test modules are imported: the same examples every time, and no search for the smallest one that fails."""
        settings.register_profile(
            "mutate", deadline=None, derandomize=True, database=None, phases=(Phase.explicit, Phase.generate), print_blob=False
        )
        settings.load_profile("mutate")

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        return ScenarioFile.from_parent(parent, path=file_path) if is_scenario_file(file_path) else None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed = report.nodeid
            print(report.nodeid, report.longreprtext, sep="\n", file=sys.stderr)  # in a fork, stderr is its log

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        for path in self._paths:
            importlib.import_module(path.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
        items = {item.nodeid: item for item in session.items}
        _keep_from_collector()
        self._learn(items)
        self._judge(items)
        return True

    # which test runs which line

    def _learn(self, items: dict[str, pytest.Item]) -> None:
        """Run the tests whose files are not known as they are now; all, when a source has changed."""
        folder = self._options.folder
        known_file, data_file = folder / "tests.json", folder / "coverage"
        sources = state_of(self._paths)
        if known_file.exists():
            self._known = msgspec.json.decode(known_file.read_bytes(), type=Known)
        if self._known.sources != sources:
            self._known = Known(sources=sources)
            data_file.unlink(missing_ok=True)
        files = {str(item.path): state_of([str(item.path)]) for item in items.values()}
        fresh = [item for item in items.values() if self._known.files.get(str(item.path)) != files[str(item.path)]]
        print(f"{len(items)} tests, {len(fresh)} of them to run for the lines that they reach", flush=True)
        if fresh:
            self._run_covered(fresh, data_file)
            self._known.files |= files
            known_file.write_bytes(msgspec.json.encode(self._known))
        self._tests_by_line = dict(self._lines(data_file, items))

    def _run_covered(self, items: list[pytest.Item], data_file: Path) -> None:
        jobs = self._options.jobs
        parts = [self._options.folder / f"coverage-{number}" for number in range(jobs)]
        children = [
            _fork(partial(self._cover, items[number::jobs], parts[number]), parts[number].with_suffix(".log")) for number in range(jobs)
        ]
        for pid in children:
            _, status = os.waitpid(pid, 0)
            assert status == 0, f"the tests ended their process: see {self._options.folder}/coverage-*.log"
        data = CoverageData(basename=str(data_file))
        data.read()
        for part in parts:
            covered = CoverageData(basename=str(part))
            covered.read()
            data.update(covered)
            outcome = json.loads(part.with_suffix(".json").read_bytes())
            self._known.seconds |= outcome["seconds"]
            for failed in outcome["failed"]:
                self._known.seconds.pop(failed, None)
                print(f"not asked, fails unchanged: {failed} (see {part.with_suffix('.log')})", flush=True)
        data.write()

    def _cover(self, items: list[pytest.Item], data_file: Path) -> None:
        data_file.unlink(missing_ok=True)
        coverage = Coverage(data_file=str(data_file), include=[str(Path(path).absolute()) for path in self._paths], config_file=False)
        coverage.set_option("run:disable_warnings", ["no-data-collected"])  # tests of the core alone reach no Python line
        seconds, failed = {}, []
        coverage.start()
        for item, following in zip(items, [*items[1:], None], strict=True):
            coverage.switch_context(item.nodeid)
            started = time.monotonic()
            if self._fails(item, following):
                failed.append(item.nodeid)
            seconds[item.nodeid] = time.monotonic() - started
        coverage.stop()
        coverage.save()
        data_file.with_suffix(".json").write_text(json.dumps({"seconds": seconds, "failed": failed}))

    def _lines(self, data_file: Path, items: dict[str, pytest.Item]) -> Iterator[tuple[str, dict[int, list[str]]]]:
        data = CoverageData(basename=str(data_file))
        data.read()
        for path in self._paths:
            by_line = data.contexts_by_lineno(str(Path(path).absolute()))
            yield path, {line: [test for test in tests if test in items] for line, tests in by_line.items()}

    # mutants

    def _judge(self, items: dict[str, pytest.Item]) -> None:
        running: dict[int, tuple[Mutant, Path, float]] = {}
        waiting = [mutant for mutant in self._mutants if not self._verdicts.stands(mutant)]
        print(f"{len(self._mutants)} mutants, {len(waiting)} of them to judge", flush=True)
        waiting.reverse()
        while waiting or running:
            while waiting and len(running) < self._options.jobs:
                mutant = waiting.pop()
                tests = self._tests(mutant)
                if not tests:
                    self._verdicts.add(Verdict.of(mutant, "unreached"))
                    continue
                answer = self._options.folder / f"answer-{mutant.key.rpartition(':')[2]}"
                answer.unlink(missing_ok=True)
                expected = sum(self._known.seconds[test] for test in tests)
                pid = _fork(partial(self._try, mutant, [items[test] for test in tests], answer), self._options.folder / "mutant.log")
                running[pid] = (mutant, answer, time.monotonic() + GRACE_SECONDS + TIMEOUT_FACTOR * expected)
            time.sleep(POLL_SECONDS)
            for pid, (mutant, answer, deadline) in list(running.items()):
                ended, status = os.waitpid(pid, os.WNOHANG)
                if not ended and time.monotonic() < deadline:
                    continue
                if not ended:
                    os.killpg(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
                del running[pid]
                self._verdicts.add(Verdict.of(mutant, *_outcome(bool(ended), status, answer)))
                answer.unlink(missing_ok=True)

    def _tests(self, mutant: Mutant) -> list[str]:
        """Return tests that run a changed line, up to the seconds of a mutant: the one that killed it last time, then the quick ones.

        Tests of the same folder or module go first among those that take up to NEAR times as long.
        """
        *_, folder, module = Path(mutant.path).with_suffix("").parts

        def cost(test: str) -> float:
            return self._known.seconds[test] / (NEAR if folder in test or module in test else 1.0)

        by_line = self._tests_by_line[mutant.path]
        reached = {test for line in mutant.lines for test in by_line.get(line, ()) if test in self._known.seconds}
        last = self._verdicts.killer(mutant)
        chosen: list[str] = []
        left = self._options.seconds
        for test in sorted(reached, key=lambda test: (test != last, cost(test), test)):
            left -= self._known.seconds[test]
            if left < 0 and chosen:
                break
            chosen.append(test)
        return chosen

    def _try(self, mutant: Mutant, items: list[pytest.Item], answer: Path) -> None:
        module = importlib.import_module(mutant.path.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
        assert module.__file__ is not None
        exchange(module.__file__, exchanges(module.__file__, mutant.source, mutant.mutated))
        for item, following in zip(items, [*items[1:], None], strict=True):
            if self._fails(item, following):
                answer.write_text(item.nodeid)
                return
        answer.write_text("")

    def _fails(self, item: pytest.Item, following: pytest.Item | None) -> bool:
        self._failed = ""
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        return self._failed != ""


def _keep_from_collector() -> None:
    """Let the garbage collector forget what is there to stay: modules and collected tests.

    It looks at old garbage only when that is a quarter of all old objects: beside those of thousands of collected tests the garbage of
    hundreds of schedulers comes to gigabytes before.
    """
    gc.collect()
    gc.freeze()
    gc.collect()  # the quarter is of what was left by the last collection


def _outcome(ended: bool, status: int, answer: Path) -> tuple[str, str]:
    if not ended:
        return "killed", "(time)"
    if status != 0 or not answer.exists():
        return "killed", "(the process ended)"
    killer = answer.read_text()
    return ("killed", killer) if killer else ("survived", "")


def _fork(body: Callable[[], None], log: Path) -> int:
    """Run the body in a silent child with bounded memory that ends with it; 1 when it raises."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setpgid(0, 0)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # a mutant in an endless loop must not outlive a run that is killed
        silence, words = os.open(os.devnull, os.O_RDWR), os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream, instead in enumerate((silence, silence, words)):
            os.dup2(instead, stream)
        resource.setrlimit(resource.RLIMIT_DATA, (DATA_BYTES, DATA_BYTES))
        body()
        code = 0
    except BaseException:  # noqa: BLE001 # the parent reads the exit code and the log
        traceback.print_exc()
    finally:
        os._exit(code)


def state_of(paths: Iterable[str]) -> str:
    together = hashlib.sha256()
    for path in sorted(paths):
        together.update(path.encode() + b"\0" + Path(path).read_bytes())
    return together.hexdigest()
