"""argparse with a suggestion for a mistyped option, and what its parsers offer, for completion in shells.

Knows no command; `cli` makes the parsers.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from typing import NamedTuple, NoReturn

SOME_OPTION = 0.6  # how like it an option has to be to be suggested, as difflib measures


class Parser(argparse.ArgumentParser):
    """A parser that says of an unknown option which one was probably meant."""

    def error(self, message: str) -> NoReturn:
        """Print the usage and the message to stderr, and end with 2."""
        _, unknown, words = message.partition("unrecognized arguments: ")
        if unknown:
            known = [name for action in self._actions for name in action.option_strings]
            message += "".join(f"; did you mean {near}?" for word in words.split() if (near := nearest(word.partition("=")[0], known)))
        super().error(message)


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the known word that a mistyped option or command is most like, "" for none."""
    from difflib import get_close_matches  # noqa: PLC0415  # only a mistake needs it

    return next(iter(get_close_matches(word, list(known), n=1, cutoff=SOME_OPTION)), "")


class Option(NamedTuple):
    """An option. value: what it takes, "" nothing, else the name of it; FILE is a file. choices: () for any value."""

    names: tuple[str, ...]
    help: str
    value: str = ""
    choices: tuple[str, ...] = ()
    repeats: bool = False


class Subcommand(NamedTuple):
    """A subcommand. name: "" for the program without one. files: whether it takes files; words: what else stands behind it."""

    name: str
    help: str
    options: tuple[Option, ...] = ()
    files: bool = False
    words: tuple[str, ...] = ()


def command_of(name: str, parser: argparse.ArgumentParser) -> Subcommand:
    """Return what a parser offers; its description's first sentence is the command's help."""
    positional = [action for action in parser._actions if not action.option_strings]
    words = tuple(str(choice) for action in positional for choice in action.choices or ())
    summary = (parser.description or "").partition(". ")[0].rstrip(".")
    return Subcommand(name, summary, tuple(_options(parser)), files=bool(positional) and not words, words=words)


def _options(parser: argparse.ArgumentParser) -> Iterator[Option]:
    for action in parser._actions:
        if action.option_strings:
            value = "" if action.nargs == 0 else str(action.metavar or action.dest).upper()
            choices = tuple(map(str, action.choices or ()))
            repeats = isinstance(action.default, list)
            yield Option(tuple(action.option_strings), (action.help or "").replace("%%", "%"), value, choices, repeats)
