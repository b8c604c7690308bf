"""The templates, and how they show values: nothing unescaped, no control character, no text without an end."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from jobboard.text import duration, short_duration, steers, utc

_MAX_TEXT, _MAX_BLOCK = 300, 20_000
_KEPT = "\n\t"
_UUIDS = re.compile(r"\b([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b")
#: A command in a sentence, with what follows it up to a comma, a bracket or the end: options, names, and texts as shlex
#: quotes them.
_COMMAND = re.compile(r"""(\bjobboard [a-z][a-z-]*(?: (?:[\w@%+=:./*-]*[\w@%+=/*-]|'[^']*'|"'")+)*)""")
_WORDS = re.compile(r"""(?:[^ '"]|'[^']*'|"'")+""")
#: Conductors are called LABEL@HOST:PID:NUMBER.
_CONDUCTOR = re.compile(r"(.+):(\d{1,10}):[0-9a-f]{4,16}")


@cache
def environment() -> Environment:
    """Return the environment of all templates."""
    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "shown": shown,
        "linked": linked,
        "advice": advice,
        "command": command,
        "owner": owner_of,
        "block": block,
        "moment": moment_of,
        "age": age_of,
        "span": span_of,
        "count": count_of,
        "size": size_of,
        "percent": percent_of,
    }
    return made


def shown(value: Any) -> Markup:
    """Show a text of users in a line: isolated from the direction of writing around it, and cut; "-" for None."""
    if value is None:
        return Markup('<span class="none">-</span>')
    text = str(value)
    cut = f"{visible(text[:_MAX_TEXT], '')}…" if len(text) > _MAX_TEXT else visible(text, "")
    return Markup("<bdi>{}</bdi>").format(cut)


def linked(text: str, link: str) -> Markup:
    """Show a sentence, of which users may have written a part, with a link to each job that it names.

    :param link: where jobs are; a slash and the uuid follow.
    """
    parts = enumerate(_UUIDS.split(text))
    return Markup().join(_job_link(part, link) if index % 2 else shown(part) for index, part in parts)


def advice(text: str, link: str) -> Markup:
    """Show what to type: the same with its commands, which can be copied; for what jobboard itself says."""
    parts = _COMMAND.split(text)
    return Markup().join(command(part) if index % 2 else linked(part, link) for index, part in enumerate(parts))


def command(text: str) -> Markup:
    """Show a command; a line of it ends between two words, and never at the hyphens of an option."""
    words = Markup(" ").join(Markup("<span>{}</span>").format(shown(word)) for word in _WORDS.findall(text))
    return Markup('<code class="command">{}</code>').format(words)


def _job_link(uuid: str, link: str) -> Markup:
    return Markup('<a href="{}/{}"><code title="{}">{}</code></a>').format(link, uuid, uuid, uuid[-8:])


def owner_of(name: str | None) -> Markup:
    """Show who holds a job: the label and the host of a conductor, with all of its name on hover."""
    if name is None:
        return shown(None)
    known = _CONDUCTOR.fullmatch(name)
    if known is None:
        return Markup('<span class="owner">{}</span>').format(shown(name))
    whole, pid = visible(name[:_MAX_TEXT], ""), known[2]
    return Markup('<span class="owner" title="{}">{} <small>{}</small></span>').format(whole, shown(known[1]), pid)


def block(value: Any) -> Markup:
    """Show a text of several lines, such as a traceback; of a long one the beginning and the end."""
    text = str(value)
    if len(text) > _MAX_BLOCK:
        half = _MAX_BLOCK // 2
        text = f"{text[:half]}\n… {len(text) - _MAX_BLOCK} characters left out …\n{text[-half:]}"
    return Markup('<pre dir="auto" tabindex="0">{}</pre>').format(visible(text, _KEPT))


def visible(text: str, kept: str) -> str:
    """Return a text with its control and direction characters written out, but for those to be kept."""
    return "".join(one if one in kept or not steers(one) else one.encode("unicode_escape").decode() for one in text)


def moment_of(value: datetime | float | None) -> Markup:
    """Show a moment in UTC; scripts add the browser's own time."""
    if value is None:
        return shown(None)
    moment = _in_utc(value)
    return Markup('<time datetime="{}">{}</time>').format(moment.isoformat(timespec="milliseconds"), utc(moment))


def age_of(value: datetime | float | None) -> Markup:
    """Show how long ago a moment was, or in how long it comes, by the clock of this host; exactly when, on hover."""
    if value is None:
        return shown(None)
    moment = _in_utc(value)
    seconds = (datetime.now(UTC) - moment).total_seconds()
    text = f"{duration(seconds)} ago" if seconds >= 0 else f"in {duration(-seconds)}"
    stamp = moment.isoformat(timespec="milliseconds")
    return Markup('<time datetime="{}" title="{}">{}</time>').format(stamp, utc(moment), text)


def _in_utc(value: datetime | float) -> datetime:
    moment = value if isinstance(value, datetime) else datetime.fromtimestamp(value, UTC)
    return moment.astimezone(UTC)


def span_of(seconds: float | None) -> Markup:
    """Show a span of time in its two largest units; milliseconds below a second."""
    if seconds is None or not math.isfinite(seconds):
        return shown(None)
    return escape(short_duration(seconds))


def count_of(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def percent_of(share: float) -> str:
    return f"{share * 100:.0f} %" if share >= 0.1 or not share else f"{share * 100:.2g} %"


def size_of(number: int | None) -> Markup:
    """Show a number of bytes in mebibytes, or kibibytes if it is less than one; "-" if there is none."""
    if not number:
        return shown(None)
    return (
        Markup("{:,.0f} MiB").format(number / 2**20) if number >= 2**20 else Markup("{:.0f} KiB").format(number / 2**10)
    )
