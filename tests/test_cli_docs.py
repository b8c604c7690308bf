"""Every command line in the documentation and in the help exists, with its options."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from jobboard.cli.app import cli

ROOT = Path(__file__).parent.parent
_IN_TEXT = re.compile(r"``(jobboard\s+\w[^`.]*)``")
_LINE = re.compile(r"^ {2,}(?:ExecStart=\S*/)?(jobboard [a-z].*)$", re.MULTILINE)


def command_lines() -> list[tuple[str, str]]:
    pages = [ROOT / "README.rst", *sorted((ROOT / "doc").rglob("*.rst"))]
    found = [(page.name, line) for page in pages for line in _LINE.findall(page.read_text())]
    found += [(page.name, line) for page in pages for line in _IN_TEXT.findall(page.read_text())]
    for name, command in commands(cli):
        found += [(f"{name} --help", line) for line in _LINE.findall(command.epilog or "")]
    return found


def commands(group: click.Group, above: str = "") -> Iterator[tuple[str, click.Command]]:
    """Give all commands, also those of groups: ``schedule explain``."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{above}{name} ")
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield above + name, command


def _runs_alone(group: click.Group, words: list[str]) -> bool:
    return group.invoke_without_command and not (words and words[0] in group.commands)


@pytest.mark.parametrize(("where", "line"), command_lines())
def test_a_command_line_can_be_run_as_it_stands(where: str, line: str) -> None:
    words = shlex.split(re.split(r" [|>] ", line)[0], comments=True)[1:]
    command: click.Command = cli
    while isinstance(command, click.Group) and not _runs_alone(command, words):
        command = command.commands[words.pop(0)]
    context = click.Context(command, info_name=command.name)
    command.make_parser(context).parse_args(words)


def test_every_command_is_in_the_reference_and_has_examples() -> None:
    reference = (ROOT / "doc/reference/cli.rst").read_text()
    where = {where for where, _ in command_lines()}
    for name, command in commands(cli):
        assert f"``{name}" in reference
        assert f"{name} --help" in where
        for parameter in command.params:
            if isinstance(parameter, click.Option) and parameter.name not in ("board_uri", "board_name", "as_json"):
                assert any(option in reference for option in (*parameter.opts, *parameter.secondary_opts)), parameter


def test_there_are_command_lines() -> None:
    assert len(command_lines()) >= 50
