"""Completion in shells, and what is suggested for words that are mistyped."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from koordsched.arguments import Option, Subcommand
from koordsched.cli import COMMANDS, main
from koordsched.completion import script
from koordsched.config.flags import FLAGS

SMALL = [
    Subcommand("", "Serve", (Option(("--config",), "the file", "FILE"),)),
    Subcommand(
        "run",
        "Run what's there",
        (
            Option(("-o",), "what to print: [all]", "OUTPUT", ("table", "json")),
            Option(("-n", "--name"), "a name", "NAME", repeats=True),
            Option(("--quick",), "be quick"),
        ),
        files=True,
    ),
    Subcommand("shell", "Choose", words=("bash", "zsh")),
]


@pytest.fixture
def bash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """The program's own script for bash, in a folder with one file."""
    assert main(["completion", "bash"]) == 0
    (tmp_path / "script").write_text(capsys.readouterr().out)
    (tmp_path / "my cluster.yaml").touch()
    return tmp_path


def completed(folder: Path, *words: str) -> list[str]:
    """Return what bash offers for the last word."""
    typed = " ".join(f"'{word}'" for word in ("koord-scheduler", *words))
    code = f"source ./script; COMP_WORDS=({typed}); COMP_CWORD={len(words)}; _koord_scheduler; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    ran = subprocess.run(["bash", "--norc", "-c", code], cwd=folder, check=True, capture_output=True, text=True)
    assert ran.stderr == ""
    return ran.stdout.split("\n")[:-1]


def test_bash_completes_commands_options_their_values_and_files(bash: Path) -> None:
    assert completed(bash, "") == [name for name in COMMANDS if not name.startswith("-")]
    assert completed(bash, "ex") == ["explain"]
    assert completed(bash, "explain", "--no") == ["--node", "--no-changes"]
    assert completed(bash, "simulate", "--order", "") == ["arrival", "random"]
    assert completed(bash, "simulate", "--order", "=", "r") == ["random"]
    assert completed(bash, "simulate", "my") == ["my cluster.yaml"]
    assert completed(bash, "simulate", "--config", "my") == ["my cluster.yaml"]
    assert completed(bash, "simulate", "--seed", "") == [""]
    assert completed(bash, "completion", "") == ["bash", "zsh", "fish"]
    assert completed(bash, "--leader-elect-re") == [f"--{name}" for name in sorted(FLAGS) if name.startswith("leader-elect-re")]
    assert completed(bash, "validate", "--obj") == ["--objects"]


def test_every_command_and_option_is_in_the_script_of_every_shell(capsys: pytest.CaptureFixture[str]) -> None:
    for shell in ("bash", "zsh", "fish"):
        assert main(["completion", shell]) == 0
        text = capsys.readouterr().out
        words = set(re.findall(r"[a-z0-9-]+", text.replace("-l ", "--")))
        assert {name for name in COMMANDS if not name.startswith("-")} <= words, shell
        assert {f"--{name}" for name in FLAGS} | {"--add-nodes", "--no-changes", "--scheduler-command", "--objects"} <= words, shell


def test_the_script_of_zsh() -> None:
    lines = script("zsh", "some-program", SMALL).splitlines()
    assert lines[0] == "#compdef some-program"
    assert "    'run:Run what\N{RIGHT SINGLE QUOTATION MARK}s there'" in lines
    start = lines.index("  run) shift words; (( CURRENT-- )); _arguments \\")
    assert lines[start + 1 : start + 7] == [
        r"    '-o[what to print\: \[all\]]:OUTPUT:(table json)' \ ".rstrip(" "),
        r"    '*-n[a name]:NAME:' \ ".rstrip(" "),
        r"    '*--name[a name]:NAME:' \ ".rstrip(" "),
        r"    '--quick[be quick]' \ ".rstrip(" "),
        r"    '*:file:_files' \ ".rstrip(" "),
        "    ;;",
    ]
    assert r"    '--config[the file]:FILE:_files' \ ".rstrip(" ") in lines


def test_the_script_of_fish() -> None:
    lines = script("fish", "some-program", SMALL).splitlines()
    run = "complete -c some-program -n '__fish_seen_subcommand_from run'"
    assert [line.removeprefix(run) for line in lines if line.startswith(run)] == [
        " -F",
        " -s o -xa 'table json' -d 'what to print: [all]'",
        " -s n -l name -x -d 'a name'",
        " -l quick -d 'be quick'",
    ]
    assert "complete -c some-program -n 'not __fish_seen_subcommand_from run shell' -l config -rF -d 'the file'" in lines


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["simulat", "x.yaml"], "simulat is no command; did you mean koord-scheduler simulate?"),
        (["simulate", "--kubconfig", "k"], "unrecognized arguments: --kubconfig; did you mean --kubeconfig?"),
        (["explain", "web", "x.yaml", "--name-space=a"], "unrecognized arguments: --name-space=a; did you mean --namespace?"),
        (["test", "x.yaml", "--scheduler-comand=x"], "--scheduler-comand=x; did you mean --scheduler-command?"),
        (["--lead-elect"], 'unknown flag: --lead-elect, did you mean "--leader-elect"?'),
        (["validate", "--confg=x"], 'unknown flag: --confg, did you mean "--config"?'),
    ],
)
def test_what_was_probably_meant_is_said(arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code: object = main(arguments)
    except SystemExit as end:
        code = end.code
    assert code in {1, 2}
    assert capsys.readouterr().err.splitlines()[-1].endswith(expected)


def test_nothing_is_suggested_for_what_is_like_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["qqq"]) == 1
    assert capsys.readouterr().err == '"koord-scheduler" does not take any arguments, got ["qqq"]\n'
