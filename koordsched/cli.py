"""The entry point, `koord-scheduler`: serve (no subcommand, as the Deployment calls it), simulate, sweep, explain, test, validate, and
small ones.

`kubectl koordsched` is the same, for the cluster that kubectl looks at.

Only what a command needs is imported, inside its function: `simulate` on a trace must not pay for what only serving uses. A user's mistake
ends in lines on stderr and an exit code, never in a traceback.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from koordsched import __version__
from koordsched.arguments import Option, Parser, Subcommand, command_of, nearest
from koordsched.frozen import frozen
from koordsched.log import be_quiet

if TYPE_CHECKING:
    from koordsched.framework.tooling import Tooling
    from koordsched.scenario.cluster import Backend
    from koordsched.scenario.live.limits import BackendLimits
    from koordsched.scheduler.scheduler import Scheduler
    from koordsched.simulate.command import SimulateOptions

PROGRAM = "koord-scheduler"
INTERRUPTED = 130
USAGE = f"""koord-scheduler {__version__}: Koordinator's scheduler for Kubernetes

  koord-scheduler [FLAGS]           schedule a cluster (koord-scheduler --config FILE; all flags of koord-scheduler and kube-scheduler)
  koord-scheduler simulate INPUT... schedule manifests or a trace on an embedded cluster, in virtual time, and say what happens
  koord-scheduler sweep SWEEP.yaml --results FOLDER  simulate under several configurations, on several inputs, with several seeds
  koord-scheduler explain POD FILE... say why a pod is pending and which smallest change lets it run; of a live cluster: --kubeconfig FILE
  koord-scheduler test SCENARIO...  run scheduling unit tests written in YAML
  koord-scheduler validate --config FILE [FLAGS]  check a KubeSchedulerConfiguration and name every mistake in it
  koord-scheduler validate --objects FILE...      check quotas and other manifests, and name every mistake in them
  koord-scheduler completion SHELL  print what makes bash, zsh or fish complete all of this
  koord-scheduler version           print the version

COMMAND --help says more. Write the effective configuration of FLAGS to F and exit: --write-config-to F
"""
PLUGIN_USAGE = """kubectl koordsched: what Koordinator's scheduler would do in the cluster that kubectl looks at, which is only read

  kubectl koordsched explain POD [-n NAMESPACE]  say why a pod is pending and which smallest change lets it run
  kubectl koordsched explain -f FILE             the same of a pod, or of a Deployment or the like, that is not there yet
  kubectl koordsched simulate [FILE...]          schedule all that is pending there, and the files' pods, in memory, and say what happens
  kubectl koordsched test, validate, ...         the other commands of koord-scheduler

COMMAND --help says more.
"""
VALIDATE_USAGE = """koord-scheduler validate --config FILE [FLAGS]: check a KubeSchedulerConfiguration, without a cluster
koord-scheduler validate --objects FILE...: check manifests, without a cluster (validate --objects --help says more)

Names every mistake in FILE (- is standard input) and ends with 1, or says which plugins run where and ends with 0. FLAGS are those that the
scheduler is started with: they are checked too, and feature gates and leader election decide with them what FILE may say.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        code = COMMANDS.get(arguments[0], _serve)(arguments) if arguments else _serve(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that the flush at exit does not complain again
        return 1
    return code


def _serve(arguments: list[str]) -> int:
    """Schedule a real cluster, or only write the effective configuration (`--write-config-to`)."""
    with frozen():
        from koordsched.config.flags import FlagError, parse_flags  # noqa: PLC0415
        from koordsched.config.loading import ConfigError, effective_config  # noqa: PLC0415
        from koordsched.config.validate import config_warnings  # noqa: PLC0415
        from koordsched.config.writing import write_config  # noqa: PLC0415
        from koordsched.plugins import installed_catalogue  # noqa: PLC0415

    try:
        flags = parse_flags(arguments)
        if flags.version != "false":
            return _version(arguments)
        if flags.help:
            return _help(arguments)
        catalogue = installed_catalogue()
        config = effective_config(flags, catalogue)
        doubts = tuple(config_warnings(config, catalogue))
        if flags.write_config_to:
            sys.stderr.writelines(f"warning: {doubt}\n" for doubt in doubts)
            write_config(config, flags.write_config_to)
            return 0
    except (FlagError, ConfigError) as mistake:
        print(*mistake.errors, *_meant_command(arguments), sep="\n", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, _leave)
    with frozen():
        from koordsched.serve.command import Start, run_serve  # noqa: PLC0415

    return run_serve(Start(flags, config, doubts))


def _meant_command(arguments: Sequence[str]) -> Iterator[str]:
    """Say which command the first word was probably meant to be."""
    word = next(iter(arguments), "-")
    if not word.startswith("-") and (meant := nearest(word, [name for name in COMMANDS if not name.startswith("-")])):
        yield f"{word} is no command; did you mean koord-scheduler {meant}?"


def _leave(*_: object) -> NoReturn:
    """End before there is anything to stop. Process 1 of a container gets no signal that it does not handle."""
    sys.exit(0)


def _simulate(arguments: list[str]) -> int:
    with frozen():
        from koordsched.plugins import tooling  # noqa: PLC0415
        from koordsched.simulate.command import run_simulate  # noqa: PLC0415

    be_quiet()  # stdout is the result's, stderr is for what concerns the input
    tools = tooling()
    return run_simulate(_simulate_options(_simulate_parser(tools), tools, arguments[1:]), sys.stdout, sys.stderr)


def _simulate_options(parser: argparse.ArgumentParser, tools: Sequence[Tooling], arguments: Sequence[str]) -> SimulateOptions:
    """Read the command line of `simulate`; the parser says what is wrong with it."""
    from koordsched.simulate.command import SimulateOptions  # noqa: PLC0415

    parsed = parser.parse_args(arguments)
    if parsed.trace == "openb" and (parsed.inputs or parsed.kubeconfig or not parsed.nodes or not parsed.pods):
        parser.error("--trace openb needs --nodes FILE and --pods FILE, and takes no other input")
    has_nodes = parsed.nodes or parsed.inputs or parsed.kubeconfig
    if parsed.trace in {"csv", "parquet"} and not (parsed.pods and has_nodes):
        parser.error(f"--trace {parsed.trace} needs --pods FILE, and nodes: --nodes FILE, manifests as INPUT, or --kubeconfig FILE")
    if not parsed.trace and (not (parsed.inputs or parsed.kubeconfig) or parsed.nodes or parsed.pods):
        parser.error("name manifest files or directories, --kubeconfig FILE, or --trace openb with --nodes FILE and --pods FILE")
    _check_cluster(parser, parsed)
    if parsed.inflate is not None and (parsed.trace != "openb" or parsed.order):
        parser.error("--inflate draws the pods of --trace openb, and has them come in the order in which it drew them: no --order")
    given = vars(parsed)
    node_options = [(option, given.pop(option.flag)) for each in tools for option in each.node_options]
    shown_pods = {report.key: given.pop(report.flag) for each in tools for report in each.reports}
    return SimulateOptions(
        **{**given, **{name: tuple(given[name]) for name in ("inputs", "added_nodes", "drained", "namespaces")}},
        node_options=tuple((option, value) for option, value in node_options if value is not None),
        shown_pods=shown_pods,
    )


def _sweep(arguments: list[str]) -> int:
    with frozen():
        from koordsched.plugins import tooling  # noqa: PLC0415
        from koordsched.sweep.command import SweepOptions, run_sweep  # noqa: PLC0415

    be_quiet()  # stdout is the result's, stderr is for what concerns the sweep
    parser = _sweep_parser()
    parsed = parser.parse_args(arguments[1:])
    if parsed.workers is not None and (parsed.scheduler is not None or not parsed.workers):
        parser.error("--workers is how many processes to start here, at least one: not with --scheduler, which has its own")
    tools = tooling()
    flags = _simulate_parser(tools, _RaisingParser)

    def read_flags(given: Sequence[str]) -> SimulateOptions:
        return _simulate_options(flags, tools, given)

    return run_sweep(SweepOptions(**vars(parsed)), read_flags, sys.stdout, sys.stderr)


def _explain(arguments: list[str]) -> int:
    with frozen():
        from koordsched.explain.command import ExplainOptions, run_explain  # noqa: PLC0415

    be_quiet()  # stdout is the result's, stderr is for what concerns the input
    parser = _explain_parser()
    parsed = parser.parse_intermixed_args(arguments[1:])
    names = list(parsed.names)
    pod = names.pop(0) if parsed.file is None and names else ""
    if parsed.file is None and not pod:
        parser.error("name a pod, or hand one in by -f FILE")
    if parsed.server is not None:
        if names or parsed.config is not None or parsed.kubeconfig is not None:
            parser.error("--server asks a scheduler about the cluster that it knows: no files of a cluster, no --kubeconfig, no --config")
        return _explain_on_server(parsed, pod)
    if not names and parsed.kubeconfig is None:
        parser.error("name the files of the cluster (manifests, or what kubectl get -o yaml writes), or a live one by --kubeconfig FILE")
    _check_cluster(parser, parsed)
    options = ExplainOptions(
        pod=pod,
        namespace=parsed.namespace,
        file=parsed.file,
        inputs=tuple(names),
        kubeconfig=parsed.kubeconfig,
        context=parsed.context,
        node=parsed.node,
        config=parsed.config,
        output=parsed.output,
        seed=parsed.seed,
        changes=not parsed.no_changes,
    )
    return run_explain(options, sys.stdout, sys.stderr)


def _check_cluster(parser: argparse.ArgumentParser, parsed: argparse.Namespace) -> None:
    if parsed.context is not None and parsed.kubeconfig is None:
        parser.error("--context needs --kubeconfig FILE")


def _explain_on_server(parsed: argparse.Namespace, pod: str) -> int:
    with frozen():
        from koordsched.explain.server import ServerOptions, run_explain_on_server  # noqa: PLC0415

    options = ServerOptions(
        server=parsed.server,
        pod=pod,
        namespace=parsed.namespace or "default",
        file=parsed.file,
        node=parsed.node,
        output=parsed.output,
        changes=not parsed.no_changes,
        token=parsed.token,
        token_file=parsed.token_file,
        certificate_authority=parsed.certificate_authority,
        client_certificate=parsed.client_certificate,
        client_key=parsed.client_key,
        insecure=parsed.insecure_skip_tls_verify,
    )
    return run_explain_on_server(options, sys.stdout, sys.stderr)


def _test(arguments: list[str]) -> int:
    with frozen():
        from koordsched.scenario.command import ScenarioOptions, run_tests  # noqa: PLC0415

    be_quiet()  # stdout is the result's, stderr is for what concerns the input
    parser = _test_parser()
    parsed = parser.parse_args(arguments[1:])
    if parsed.kubeconfig is None and parsed.scheduler_command is not None:
        parser.error("--scheduler-command needs --kubeconfig FILE")
    if parsed.kubeconfig is None:
        backend, limits = _embedded_backend(parsed)
    else:
        backend, limits = _live_backend(parser, parsed)
    options = ScenarioOptions(
        paths=tuple(parsed.paths),
        config=parsed.config,
        only=parsed.only,
        limits=limits,
        slack=parsed.slack,
        junit=parsed.junit,
        update=parsed.update,
    )
    return run_tests(options, backend, sys.stdout, sys.stderr)


def _embedded_backend(parsed: argparse.Namespace) -> tuple[Backend, BackendLimits]:
    """Return the backend in memory, where time costs nothing."""
    from koordsched.scenario.cluster import HttpAnswer  # noqa: PLC0415
    from koordsched.scenario.embedded import EmbeddedBackend  # noqa: PLC0415
    from koordsched.scenario.live.limits import BackendLimits  # noqa: PLC0415
    from koordsched.serve.endpoints import Endpoints  # noqa: PLC0415
    from koordsched.server.http import HttpRequest  # noqa: PLC0415

    async def http(scheduler: Scheduler, path: str) -> HttpAnswer:
        response = await Endpoints(scheduler).answer(HttpRequest.of("GET", path))
        return HttpAnswer(response.status, response.body)

    return EmbeddedBackend(http), BackendLimits(max_wait=math.inf if parsed.max_wait is None else parsed.max_wait, against=parsed.against)


def _live_backend(parser: argparse.ArgumentParser, parsed: argparse.Namespace) -> tuple[Backend, BackendLimits]:
    """Return the backend on a real cluster, with a scheduler that is started there or the one that serves it."""
    from koordsched.clock import RealClock  # noqa: PLC0415
    from koordsched.scenario.live.backend import LiveBackend, LiveSettings  # noqa: PLC0415
    from koordsched.scenario.live.limits import REAL_MAX_WAIT, BackendLimits  # noqa: PLC0415
    from koordsched.scenario.live.process import Command  # noqa: PLC0415

    kubeconfig = os.path.abspath(parsed.kubeconfig)
    command = None
    if parsed.scheduler_command is not None:
        try:
            command = Command.parse(parsed.scheduler_command, kubeconfig)
        except ValueError as mistake:
            parser.error(f"--scheduler-command: {mistake}")
    max_wait = REAL_MAX_WAIT if parsed.max_wait is None else parsed.max_wait
    limits = BackendLimits(max_wait=max_wait, served=command is None, against=parsed.against)
    return LiveBackend(LiveSettings(kubeconfig=kubeconfig, command=command), RealClock()), limits


def _validate(arguments: list[str]) -> int:
    if any(argument.partition("=")[0] == "--objects" for argument in arguments):
        return _validate_objects(arguments)
    from koordsched.config.flags import FlagError, parse_flags  # noqa: PLC0415
    from koordsched.config.loading import environment_of  # noqa: PLC0415
    from koordsched.config.validate import validate_command  # noqa: PLC0415
    from koordsched.plugins import installed_catalogue  # noqa: PLC0415

    try:
        flags = parse_flags(arguments[1:])
        if not (flags.help or flags.config):
            raise FlagError(["koord-scheduler validate: --config FILE or --objects FILE... is required"])
    except FlagError as mistake:
        print(*mistake.errors, sep="\n", file=sys.stderr)
        return 1
    if flags.help:
        print(VALIDATE_USAGE, end="")
        return 0
    return validate_command(flags.config, sys.stdout, sys.stderr, environment_of(flags, installed_catalogue()))


def _validate_objects(arguments: list[str]) -> int:
    with frozen():
        from koordsched.quotas.rules import QuotaGates  # noqa: PLC0415
        from koordsched.validate.command import ValidateOptions, read_gates, run_validate  # noqa: PLC0415

    be_quiet()  # what is wrong goes to stderr once
    parser = _validate_parser(_stating(read_gates))
    parsed = parser.parse_args(arguments[1:])
    if not parsed.objects:
        parser.error("--objects: name files or directories")
    options = ValidateOptions(
        objects=tuple(parsed.objects), cluster=tuple(parsed.cluster), gates=parsed.gates or QuotaGates(), output=parsed.output
    )
    return run_validate(options, sys.stdout, sys.stderr)


def _completion(arguments: list[str]) -> int:
    from koordsched.completion import script  # noqa: PLC0415

    be_quiet()
    shell = _completion_parser().parse_args(arguments[1:]).shell
    print(script(shell, PROGRAM, [_serving(), *_subcommands()]), end="")
    return 0


def _subcommands() -> Iterator[Subcommand]:
    """Yield what each command offers, for completion."""
    from koordsched.plugins import tooling  # noqa: PLC0415

    yield command_of("simulate", _simulate_parser(tooling()))
    yield command_of("sweep", _sweep_parser())
    yield command_of("explain", _explain_parser())
    yield command_of("test", _test_parser())
    validate = command_of("validate", _validate_parser(str))
    own = {name for option in validate.options for name in option.names}
    flags = (option for option in _serving().options if not own.intersection(option.names))
    yield validate._replace(options=(*validate.options, *flags))
    yield command_of("completion", _completion_parser())
    yield Subcommand("version", "Print the version")
    yield Subcommand("help", "Print what there is")


def _serving() -> Subcommand:
    """Return what the scheduler itself takes: its flags."""
    from koordsched.config.flag_help import TOPICS  # noqa: PLC0415
    from koordsched.config.flags import takes_file, takes_value  # noqa: PLC0415

    helps = {name: text for topic in TOPICS.values() for name, text in topic.items()}
    values = {name: "FILE" if takes_file(name) else "VALUE" if takes_value(name) else "" for name in helps}
    return Subcommand("", "Schedule a cluster", tuple(Option((f"--{name}",), helps[name], values[name]) for name in sorted(helps)))


def kubectl_plugin() -> int:
    """Run as `kubectl koordsched COMMAND`: `explain` and `simulate` look at the cluster that kubectl looks at."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] not in COMMANDS:
        print(*_meant_command(arguments), PLUGIN_USAGE, sep="\n", end="", file=sys.stderr)
        return 2
    if arguments[0] in {"help", "--help", "-h"}:
        print(PLUGIN_USAGE, end="")
        return 0
    named = {word.partition("=")[0] for word in arguments}
    if arguments[0] in {"explain", "simulate"} and not named & {"--kubeconfig", "--server", "--trace", "--help", "-h"}:
        arguments[1:1] = ["--kubeconfig", os.environ.get("KUBECONFIG") or os.path.expanduser("~/.kube/config")]
    return main(arguments)


def _version(_arguments: list[str]) -> int:
    print(f"koord-scheduler {__version__}")
    return 0


def _help(_arguments: list[str]) -> int:
    from koordsched.config.flag_help import flags_help  # noqa: PLC0415

    print(USAGE, flags_help(), sep="", end="")
    return 0


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "simulate": _simulate,
    "sweep": _sweep,
    "explain": _explain,
    "test": _test,
    "validate": _validate,
    "completion": _completion,
    "version": _version,
    "--version": _version,
    "help": _help,
    "--help": _help,
    "-h": _help,
}


class _RaisingParser(argparse.ArgumentParser):
    """Raises a ValueError where argparse would end the process: the arguments stand in a file."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def _simulate_parser(tools: Sequence[Tooling], make: type[argparse.ArgumentParser] = Parser) -> argparse.ArgumentParser:
    from koordsched.simulate.node_changes import AddedNodes  # noqa: PLC0415

    parser = make(
        "koord-scheduler simulate",
        allow_abbrev=make is Parser,  # a file is written once, and read by others
        description="Schedule manifests, or a public trace, on an embedded cluster in virtual time. Input and seed decide the outcome.",
    )
    parser.add_argument("inputs", metavar="INPUT", nargs="*", help="YAML or JSON files, directories of them, or - for standard input")
    parser.add_argument(
        "--trace",
        choices=["openb", "csv", "parquet"],
        help="read Alibaba's openb trace (cluster-trace-gpu-v2023) instead of manifests, or a table of pods that come and go, beside "
        "manifests or a table of nodes (docs/simulate.md lists its columns)",
    )
    parser.add_argument("--nodes", metavar="FILE", help="the trace's nodes (CSV; of a table also gzipped, or Parquet)")
    parser.add_argument("--pods", metavar="FILE", help="the trace's pods (likewise)")
    parser.add_argument(
        "--order",
        choices=["arrival", "random"],
        help="submit all pods at once, in the order of their creation or shuffled (--seed); without it pods of a trace come and go at the "
        "times that it states, if it does",
    )
    parser.add_argument(
        "--inflate",
        metavar="PERCENT",
        type=_count,
        help="submit, instead of the trace's pods, pods drawn from them (--seed) until they request so many percent of all GPUs",
    )
    parser.add_argument("--seed", type=int, default=0, help="what chance begins with: tie breaks, --order random and --inflate (default 0)")
    parser.add_argument("--config", metavar="FILE", help="a KubeSchedulerConfiguration (default: the one that Koordinator ships)")
    parser.add_argument(
        "--compare", metavar="FILE", help="simulate the same input with this KubeSchedulerConfiguration, too, and say what differs"
    )
    parser.add_argument(
        "--show-differences", metavar="N", type=_count, default=10, help="pods that --compare lists as placed differently (default 10)"
    )
    parser.add_argument("-o", dest="output", choices=["table", "json"], default="table", help="what to print (default table)")
    parser.add_argument("--report", metavar="FILE.html", help="write the result, with charts, as a page that needs no network, too")
    parser.add_argument(
        "--add-nodes",
        dest="added_nodes",
        metavar="NODE=N",
        type=_stating(AddedNodes.parse),
        action="append",
        default=[],
        help="what if there were N more nodes like this one of the input, without its pods (may be repeated)",
    )
    parser.add_argument(
        "--drain",
        dest="drained",
        metavar="NODE",
        action="append",
        default=[],
        help="what if this node was drained: cordoned, and its pods, but for those of DaemonSets, submitted anew (may be repeated)",
    )
    for each in tools:
        for option in each.node_options:
            parser.add_argument(option.flag, dest=option.flag, metavar=option.metavar, type=_stating(option.parse), help=option.help)
        for report in each.reports:
            parser.add_argument(report.flag, dest=report.flag, metavar="N", type=_count, default=10, help=report.help)
    _add_cluster(parser)
    parser.add_argument(
        "-n",
        "--namespace",
        dest="namespaces",
        metavar="NAMESPACE",
        action="append",
        default=[],
        help="submit only the pods of this namespace; those that run elsewhere take their room all the same (may be repeated)",
    )
    parser.add_argument("--limit-pods", metavar="N", type=_count, help="submit only the first N pods")
    parser.add_argument("--show-pending", metavar="N", type=_count, default=10, help="reasons of pending pods in the table (default 10)")
    return parser


def _add_cluster(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kubeconfig", metavar="FILE", help="read the live cluster of this file, without writing anything; files come on top of it"
    )
    parser.add_argument("--context", metavar="NAME", help="of the kubeconfig (default: its current one)")


def _sweep_parser() -> argparse.ArgumentParser:
    parser = Parser(
        "koord-scheduler sweep",
        description="Simulate each input of a sweep under each of its configurations with each of its seeds, on all CPUs, and say what "
        "differs and how sure that is. A run that is done is kept: the same command does only what is missing (docs/sweep.md).",
        epilog="Exit codes: 0 every run has a result, 1 a file cannot be used or a run has no result, 2 a wrong command line, "
        "130 interrupted.",
    )
    parser.add_argument("sweep", metavar="SWEEP", help="a YAML file with configurations, inputs and seeds; - is standard input")
    parser.add_argument("--results", metavar="FOLDER", required=True, help="where runs are kept, and runs.parquet and statistics.parquet")
    parser.add_argument("--workers", metavar="N", type=_count, help="processes to simulate with (default: one per CPU)")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="the Dask scheduler whose workers to simulate with, such as tcp://host:8786")
    parser.add_argument("-o", dest="output", choices=["table", "json"], default="table", help="what to print (default table)")
    parser.add_argument(
        "--report", metavar="FILE", help="write an HTML page with charts, which needs no network (extra: koordsched[report])"
    )
    return parser


def _explain_parser() -> argparse.ArgumentParser:
    parser = Parser(
        "koord-scheduler explain",
        usage="koord-scheduler explain [OPTIONS] POD FILE...\n       koord-scheduler explain [OPTIONS] -f POD.yaml FILE...\n"
        "       koord-scheduler explain [OPTIONS] POD --kubeconfig FILE\n"
        "       koord-scheduler explain [OPTIONS] POD --server URL",
        description="Say why a pod of a cluster is pending, or where it would go, and which smallest change lets it run. The cluster is "
        "that of the files, or a live one; every change is tried on a copy by the real scheduler before it is said. Nothing is written.",
        epilog="Exit codes: 0 the pod is explained, 1 an input cannot be read or has no such pod, 2 a wrong command line.",
    )
    parser.add_argument(
        "names", metavar="POD FILE", nargs="*", help="a pod (NAME or NAMESPACE/NAME), then YAML or JSON files, directories, or -"
    )
    _add_cluster(parser)
    parser.add_argument("-n", "--namespace", help="of the pod (default: that of the kubeconfig's context, else default)")
    parser.add_argument("-f", "--file", metavar="FILE", help="explain the first pod of this file, as if it were submitted now (a dry run)")
    parser.add_argument("--node", metavar="NODE", help="only what concerns this node")
    parser.add_argument("--no-changes", action="store_true", help="do not look for changes that let it run")
    running = parser.add_argument_group("a scheduler that runs")
    running.add_argument("--server", metavar="URL", help="ask the scheduler at this address instead of reading files; nothing is written")
    running.add_argument("--token", metavar="TOKEN", default="", help="a bearer token, such as kubectl create token writes")
    running.add_argument("--token-file", metavar="FILE", help="a file with the token")
    running.add_argument("--certificate-authority", metavar="FILE", help="who signed the server's certificate (default: the system's)")
    running.add_argument("--client-certificate", metavar="FILE", help="a certificate to be known by")
    running.add_argument("--client-key", metavar="FILE", help="its key")
    running.add_argument("--insecure-skip-tls-verify", action="store_true", help="do not look at the server's certificate")
    parser.add_argument("--config", metavar="FILE", help="a KubeSchedulerConfiguration (default: the one that Koordinator ships)")
    parser.add_argument("--seed", type=int, default=0, help="what chance begins with (default 0)")
    parser.add_argument("-o", dest="output", choices=["table", "json"], default="table", help="what to print (default table)")
    return parser


def _test_parser() -> argparse.ArgumentParser:
    parser = Parser(
        "koord-scheduler test", description="Run scheduling scenarios on an embedded cluster in virtual time, or on a real one."
    )
    parser.add_argument("paths", metavar="SCENARIO", nargs="+", help="YAML files, or directories of them; - is standard input")
    parser.add_argument("--config", metavar="FILE", help="configuration of scenarios that bring none (default: the one Koordinator ships)")
    parser.add_argument("-k", dest="only", metavar="TEXT", default="", help="run only scenarios whose name contains TEXT")
    parser.add_argument("--junit", metavar="FILE", help="write the results as JUnit XML, too")
    parser.add_argument(
        "--update", action="store_true", help="correct expectations that do not hold: write what was seen into the scenario files"
    )
    parser.add_argument("--kubeconfig", metavar="FILE", help="play them on this cluster, with the scheduler that serves it")
    parser.add_argument(
        "--scheduler-command",
        metavar="CMD",
        help="start this scheduler there for each scenario instead; {kubeconfig}, {config} and {port} are filled in",
    )
    parser.add_argument(
        "--max-wait", metavar="TIME", type=_seconds, help="skip scenarios that let more time pass (default on a real cluster 60s)"
    )
    parser.add_argument(
        "--slack",
        metavar="TIME",
        type=_seconds,
        default=0.0,
        help="let expectations come true so much later than they say (a slow cluster)",
    )
    parser.add_argument(
        "--against",
        choices=["kube-scheduler", "koordinator"],
        default="",
        help="skip scenarios that say of themselves that they do not hold on that scheduler",
    )
    return parser


def _completion_parser() -> argparse.ArgumentParser:
    parser = Parser(
        "koord-scheduler completion",
        description="Print the script that makes a shell complete commands and options. "
        "For now: source <(koord-scheduler completion bash); for ever: put the output where the shell looks for completions.",
    )
    parser.add_argument("shell", choices=["bash", "zsh", "fish"], help="for which shell")
    return parser


def _validate_parser(gates: Callable[[str], Any]) -> argparse.ArgumentParser:
    parser = Parser(
        "koord-scheduler validate",
        description="Check manifests without a cluster: what an API server or Koordinator's webhooks would refuse of quotas, profiles and "
        "pods, and what the scheduler could not use of other objects. One line a problem, with file, object, field and value.",
        epilog="Exit codes: 0 no problem (lines that begin with warning: are none), 1 a problem or a file that cannot be read, 2 a wrong "
        "command line.",
    )
    parser.add_argument(
        "--objects", metavar="FILE", nargs="*", action="extend", required=True, help="YAML or JSON files, directories of them, or -"
    )
    parser.add_argument(
        "--cluster",
        metavar="FILE",
        nargs="+",
        action="extend",
        default=[],
        help="what the cluster has, as kubectl get -o yaml writes it: objects of the same name are changes of these",
    )
    parser.add_argument(
        "--feature-gates",
        dest="gates",
        metavar="GATE=BOOL,...",
        type=gates,
        help="gates of koord-manager: MultiQuotaTree, ElasticQuotaGuaranteeUsage, ElasticQuotaEnableUpdateResourceKey, "
        "DisableDefaultQuota, SupportParentQuotaSubmitPod, EnableQuotaAdmission (all false)",
    )
    parser.add_argument(
        "-o",
        dest="output",
        choices=["text", "yaml"],
        default="text",
        help="yaml: the objects with what webhooks and profiles fill in or make",
    )
    return parser


def _seconds(text: str) -> float:
    from koordsched.config.duration import Duration  # noqa: PLC0415

    try:
        return float(Duration.parse(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a duration such as 90s or 5m") from None


def _stating(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return the parser of a value as argparse wants it: one whose own words on a mistake are shown."""

    def read(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as mistake:
            raise argparse.ArgumentTypeError(str(mistake)) from None

    return read


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number of at least 0")
    return int(text)
