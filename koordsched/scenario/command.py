"""The `test` command. Exit codes (scenarios.md): 0 all passed, 1 some failed, 2 a file or the configuration is malformed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import TextIO

import msgspec

from koordsched.clock import RealClock
from koordsched.config.errors import ConfigError
from koordsched.config.flags import FlagError, parse_flags
from koordsched.config.loading import DEFAULT_FILE, Environment, Launch, documents_of, load_config_text, read_file
from koordsched.manifests.documents import InputError, expand
from koordsched.plugins import installed_catalogue
from koordsched.scenario.cluster import Backend, BackendError
from koordsched.scenario.format import load_scenarios
from koordsched.scenario.live.limits import UNLIMITED, BackendLimits, differs_from_served, why_skipped
from koordsched.scenario.runner import PlannedScenario, ScenarioResult, run_scenarios
from koordsched.terminals import has_colours

PASSED, FAILED, MALFORMED = 0, 1, 2


class ScenarioOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asks for.

    only: run scenarios whose name contains this. limits: what the backend cannot run. slack: seconds that expectations may take longer
    than they say. junit: a file that gets the results as JUnit XML. update: expectations that do not hold are corrected in their files.
    """

    paths: tuple[str, ...]
    config: str | None = None
    only: str = ""
    limits: BackendLimits = UNLIMITED
    slack: float = 0.0
    junit: str | None = None
    update: bool = False


def run_tests(options: ScenarioOptions, backend: Backend, out: TextIO, err: TextIO) -> int:
    """Run the scenarios on the backend; a line for each goes to `out` as it ends, mistakes of the files and details to `err`."""
    if options.update and "-" in options.paths:
        print("--update: standard input cannot be written; name files", file=err)
        return MALFORMED
    try:
        plans, mistakes = plan_scenarios(options)
    except InputError as mistake:
        print(mistake, file=err)
        return MALFORMED
    if mistakes:
        print(*mistakes, sep="\n", file=err)
        return MALFORMED

    asked = [plan for plan in plans if options.only in plan.scenario.name]
    if not asked:
        print(f"-k: {options.only!r}: no scenario has this in its name", file=err)
        return MALFORMED
    if options.junit is not None and (problem := _write(options.junit, b"")):
        print(problem, file=err)
        return MALFORMED

    show = _shower(out)
    clock = RealClock()
    times = [clock.perf()]

    def report(result: ScenarioResult) -> None:
        times.append(clock.perf())
        show(result)
        if result.details:
            print(*result.details, sep="\n", file=err, flush=True)

    try:
        results = run_scenarios(asked, backend, report, update=options.update)
    except BackendError as reason:
        print(reason, file=err)
        return FAILED
    print(_count(results), file=out)
    for note in backend.notes():
        print(note, file=err)
    problems = list(_correct_files(results))
    if options.junit is not None:
        from koordsched.scenario.junit import junit  # noqa: PLC0415  # seldom asked for

        seconds = [end - begin for begin, end in pairwise(times)]
        problems.append(_write(options.junit, junit(list(zip(results, seconds, strict=True)))))
    problems = [problem for problem in problems if problem]
    if problems:
        print(*problems, sep="\n", file=err)
    return FAILED if problems or any(result.failure for result in results) else PASSED


def _shower(out: TextIO) -> Callable[[ScenarioResult], object]:
    """Return what prints a result: one line, or several on a terminal with colours."""
    if not has_colours(out):
        return lambda result: print(result.line, file=out, flush=True)
    from koordsched.scenario.terminal import show  # noqa: PLC0415  # rich is slow to import

    return partial(show, out=out)


def _correct_files(results: Sequence[ScenarioResult]) -> Iterator[str]:
    """Write the corrections of all scenarios into their files; yield what hinders that."""
    if not any(result.corrections for result in results):
        return
    from koordsched.scenario.rewriting import NotRewritten, by_file, rewritten  # noqa: PLC0415  # seldom asked for

    for file, corrections in by_file([(result.origin, result.corrections) for result in results]).items():
        try:
            text = read_file(file).decode("utf-8")
            yield _write(file, rewritten(text, corrections, as_json=file.endswith(".json")).encode())
        except NotRewritten as reason:
            yield f"{file}: cannot be corrected: {reason}"


def _write(path: str, data: bytes) -> str:
    """Write a file; say what hinders it, "" when nothing does."""
    try:
        with open(path, "wb") as file:
            file.write(data)
    except (OSError, ValueError) as mistake:  # ValueError: a NUL in the path
        return f"{path}: cannot be written: {getattr(mistake, 'strerror', None) or mistake}"
    return ""


def _count(results: list[ScenarioResult]) -> str:
    failed = sum(bool(result.failure) for result in results)
    skipped = sum(bool(result.skipped) for result in results)
    updated = sum(bool(result.corrections) and not result.failure for result in results)
    passed = len(results) - failed - skipped - updated
    more = "".join(f", {count} {what}" for count, what in ((skipped, "skipped"), (updated, "updated")) if count)
    return f"{passed} passed, {failed} failed{more}"


def plan_scenarios(options: ScenarioOptions) -> tuple[list[PlannedScenario], list[str]]:
    """Read the files and give every scenario its configuration: its own, or the common one under its flags. InputError.

    Returns the scenarios with why they are skipped, those that `options.only` leaves out too, and what is wrong with the files.
    """
    common = _Common(options.config)
    if options.config is not None:
        common.find_plugins()
    loaded = load_scenarios(expand(list(options.paths)))
    served = common.under(()) if options.limits.served else None
    plans = []
    for scenario in loaded.scenarios:
        if scenario.config is None:
            launch = common.under(scenario.args)
        else:
            launch = Launch(config=scenario.config, document=scenario.document or {}, args=scenario.args)
        if launch is not None:
            elsewhere = differs_from_served(scenario, served.config) if served else ""
            skip = elsewhere or why_skipped(scenario, launch, options.limits)
            plans.append(PlannedScenario(scenario, launch, skip, options.slack))
    if options.config is not None and not common.asked:
        common.under(())  # no scenario uses it, but its mistakes are to be reported
    return plans, [*loaded.mistakes, *dict.fromkeys(common.mistakes)]


class _Common:
    """The configuration of `--config`, or the shipped one, as each set of flags makes it."""

    def __init__(self, config: str | None) -> None:
        self._name = config or DEFAULT_FILE
        self._text: bytes | None = None  # read once: it may be standard input
        self.asked: dict[tuple[str, ...], Launch | None] = {}
        self.mistakes: list[str] = []

    def find_plugins(self) -> None:
        """Let the plugins that it names be found before scenarios are read: they may bring kinds of objects. Its mistakes can wait."""
        if self._load(()) is None:
            self.mistakes.clear()

    def under(self, args: tuple[str, ...]) -> Launch | None:
        """Return the configuration; None: it, or the flags, cannot be used (the flags' mistakes are their file's)."""
        if args not in self.asked:
            self.asked[args] = self._load(args)
        return self.asked[args]

    def _load(self, args: tuple[str, ...]) -> Launch | None:
        try:
            environment = Environment(gates=parse_flags(args).gates, installed=installed_catalogue)
            if self._text is None:
                self._text = read_file(self._name)
            config = load_config_text(self._text, environment, self._name)
            document = documents_of(self._text, self._name)[0].value  # it was read without mistakes
            return Launch(config=config, document=document if isinstance(document, dict) else {}, args=args)
        except FlagError:
            return None
        except ConfigError as mistake:
            self.mistakes += map(str, mistake.errors)
            return None
