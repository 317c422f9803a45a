"""Completion scripts for bash, zsh and fish, made of what the commands offer (`arguments.Subcommand`).

The scripts are static: completing starts no process, and needs nothing installed beside the program. argcomplete, the library for this,
starts the program at each press of the key (0.1 s of imports), and shtab writes no script for fish.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from koordsched.arguments import Option, Subcommand

FILE = "FILE"


def script(shell: str, program: str, commands: Sequence[Subcommand]) -> str:
    """Return the script that makes a shell complete the program's commands and their options."""
    return "\n".join(SHELLS[shell](program, commands)) + "\n"


def _bash(program: str, commands: Sequence[Subcommand]) -> Iterator[str]:
    function = "_" + program.replace("-", "_")
    subcommands = [command for command in commands if command.name]
    yield f"# bash completion of {program}. To have it now: source <({program} completion bash)"
    yield f"{function}() {{"
    yield '  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" options= words= files='
    yield '  if [[ $word == "=" ]]; then word=; elif [[ $before == "=" ]]; then before="${COMP_WORDS[COMP_CWORD-2]}"; fi'
    yield "  COMPREPLY=()"
    yield '  case "${COMP_WORDS[1]}" in'
    for command in sorted(commands, key=lambda each: not each.name):
        yield f"  {command.name or '*'})"
        yield '    case "$before" in'
        for names, action in _bash_values(command.options):
            yield f"    {'|'.join(names)}) {action} ;;"
        yield f"    *) options={_quoted(' '.join(name for option in command.options for name in option.names))}"
        yield f"       words={_quoted(' '.join(command.words))} files={'yes' if command.files else ''} ;;"
        yield "    esac ;;"
    yield "  esac"
    yield f"  if (( COMP_CWORD == 1 )) && [[ $word != -* ]]; then words={_quoted(' '.join(each.name for each in subcommands))} files=; fi"
    yield '  if [[ $word == -* ]]; then COMPREPLY=($(compgen -W "$options" -- "$word"))'
    yield '  elif [[ -n $words ]]; then COMPREPLY=($(compgen -W "$words" -- "$word"))'
    yield '  elif [[ -n $files ]]; then compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$word"); fi'
    yield "}"
    yield f"complete -F {function} {program}"


def _bash_values(options: Sequence[Option]) -> Iterator[tuple[list[str], str]]:
    """Yield what to do behind options that take a value."""
    files = [name for option in options if option.value == FILE and not option.choices for name in option.names]
    others = [name for option in options if option.value not in {"", FILE} and not option.choices for name in option.names]
    for option in options:
        if option.choices:
            yield list(option.names), f"words={_quoted(' '.join(option.choices))}"
    if files:
        yield files, "files=yes"
    if others:
        yield others, "return"


def _zsh(program: str, commands: Sequence[Subcommand]) -> Iterator[str]:
    function = "_" + program.replace("-", "_")
    yield f"#compdef {program}"
    yield f"# zsh completion of {program}. To have it now: source <({program} completion zsh)"
    yield f"{function}() {{"
    yield "  local -a commands"
    yield "  commands=("
    for command in commands:
        if command.name:
            yield f"    {_quoted(f'{command.name}:{command.help}')}"
    yield "  )"
    yield "  if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then _describe command commands; return; fi"
    yield "  local command=$words[2]"
    yield "  case $command in"
    for command in sorted(commands, key=lambda each: not each.name):
        shift = "shift words; (( CURRENT-- )); " if command.name else ""
        yield f"  {command.name or '*'}) {shift}_arguments \\"
        specs = [spec for option in command.options for spec in _zsh_specs(option)]
        specs += ["'*:file:_files'"] if command.files else []
        specs += [f"'1:what:({' '.join(command.words)})'"] if command.words else []
        for spec in specs:
            yield f"    {spec} \\"
        yield "    ;;"
    yield "  esac"
    yield "}"
    yield f'if [[ $funcstack[1] == {function} ]]; then {function} "$@"; else compdef {function} {program}; fi'


def _zsh_specs(option: Option) -> Iterator[str]:
    """Yield a spec of _arguments for each spelling."""
    text = option.help.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")
    value = ""
    if option.value:
        action = f"({' '.join(option.choices)})" if option.choices else "_files" if option.value == FILE else ""
        value = f":{option.value.replace(':', ' ')}:{action}"
    for name in option.names:
        yield _quoted(f"{'*' if option.repeats else ''}{name}[{text}]{value}")


def _fish(program: str, commands: Sequence[Subcommand]) -> Iterator[str]:
    yield f"# fish completion of {program}. To have it now: {program} completion fish | source"
    names = " ".join(command.name for command in commands if command.name)
    bare = f"not __fish_seen_subcommand_from {names}"
    yield f"complete -c {program} -f"
    for command in commands:
        here = _quoted(f"__fish_seen_subcommand_from {command.name}" if command.name else bare)
        if command.name:
            yield f"complete -c {program} -n {_quoted(bare)} -a {command.name} -d {_quoted(command.help)}"
        if command.files:
            yield f"complete -c {program} -n {here} -F"
        if command.words:
            yield f"complete -c {program} -n {here} -a {_quoted(' '.join(command.words))}"
        for option in command.options:
            spelled = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
            value = f" -xa {_quoted(' '.join(option.choices))}" if option.choices else {"": "", FILE: " -rF"}.get(option.value, " -x")
            yield f"complete -c {program} -n {here} {spelled}{value} -d {_quoted(option.help)}"


def _quoted(text: str) -> str:
    """Quote a text for any of the shells; a single quote becomes a typographic one, which needs no quoting that differs between them."""
    return "'" + text.replace("'", "\N{RIGHT SINGLE QUOTATION MARK}") + "'"


SHELLS: dict[str, Callable[[str, Sequence[Subcommand]], Iterator[str]]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
