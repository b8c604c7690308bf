"""Asking before what touches many jobs."""

from __future__ import annotations

import sys

import click


def is_sure(question: str) -> bool:
    """Ask on the terminal; where there is none, refuse, and say what answers instead."""
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} Say --yes, since there is no terminal to ask on")
    return click.confirm(question, err=True)
