"""The command that serves the console: serve."""

from __future__ import annotations

import ipaddress
import os
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jobboard.cli.judging import limit_options
from jobboard.cli.session import Session, options, pass_session
from jobboard.cli.values import is_readable_by_all, read_text
from jobboard.errors import BoardUnavailable, NotFound
from jobboard.operate.pasting import argument

if TYPE_CHECKING:
    from starlette.requests import Request

    from jobboard.board import JobBoard

_AUTH = "JOBBOARD_CONSOLE_AUTH"
#: A board's name before its URI; a URI's scheme ends with a colon.
_NAMED = re.compile(r"([A-Za-z0-9_.-]+)=(.+)", re.DOTALL)

_EPILOG = """\b
Examples:
  jobboard serve --board sqlite:///jobs.db
  jobboard serve --board redis://localhost --allow release,restore,run_now
  jobboard serve --board orders=redis://localhost --board mail=postgresql://db.example.org/app
  jobboard serve --board redis://localhost --auth users.txt --allow restore --allow shop=post,cancel
  jobboard serve --board redis://localhost --host 0.0.0.0 --auth users.txt --allow-host ops.example.org
  jobboard serve --board redis://localhost --behind-proxy --allow-host ops.example.org --root-path /jobs
"""

_where = options(
    click.option(
        "--board",
        "uris",
        multiple=True,
        metavar="[NAME=]URI|@FILE",
        help="A board, with its name if that is not --name; may be repeated. Default: JOBBOARD_URI, or else all boards "
        "of jobboard.toml. A URI with a password stands in a file, or has ${NAME} for a variable of the environment: "
        "everybody can read arguments.",
    ),
    click.option("--name", "board_name", help="The name of boards that have none."),
    click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on."),
    click.option("--port", type=click.IntRange(0, 65535), default=8910, show_default=True, help="0: any free one."),
    click.option(
        "--rates/--no-rates",
        default=True,
        show_default=True,
        help="Listen to events, for numbers a minute and percentiles; on Redis posts and ends then take twice as long.",
    ),
    limit_options,
    click.option("--root-path", default="", metavar="PATH", help="The path that a proxy has removed, such as /jobs."),
)
_who = options(
    click.option(
        "--allow",
        multiple=True,
        metavar="[USER=]RIGHT,...",
        help="What users may do beside looking, or 'all'; USER= for one of them. May be repeated.",
    ),
    click.option(
        "--auth",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help=f"Ask for a name and a password: lines of NAME:PASSWORD. Or one such in {_AUTH}.",
    ),
    click.option(
        "--behind-proxy",
        is_flag=True,
        help="A proxy lets only known users through, and sends their names as X-Forwarded-User.",
    ),
    click.option(
        "--anonymous",
        multiple=True,
        metavar="RIGHT,...",
        help="With --behind-proxy: what requests without X-Forwarded-User may do beside looking; by default nothing.",
    ),
    click.option(
        "--allow-host",
        "hosts",
        multiple=True,
        metavar="NAME",
        help="A host name under which browsers may ask, beside those of this machine; may be repeated.",
    ),
)


@click.command("serve", epilog=_EPILOG)
@_where
@_who
@pass_session
def serve(
    session: Session,
    uris: Sequence[str],
    board_name: str | None,
    host: str,
    port: int,
    rates: bool,
    max_wait: float,
    max_run: float,
    root_path: str,
    allow: Sequence[str],
    auth: Path | None,
    behind_proxy: bool,
    anonymous: Sequence[str],
    hosts: Sequence[str],
) -> None:
    """Serve the console, pages about boards in a browser, until SIGTERM or SIGINT.

    Without --allow one can look, and change nothing. Other machines reach it only with --auth or --behind-proxy.
    """
    from jobboard.cli.console_server import run
    from jobboard.console import app as console
    from jobboard.console.boards import by_slug
    from jobboard.console.guard import LOOPBACK
    from jobboard.console.proxy_users import forwarded_user, user_or_console
    from jobboard.console.rights import allow_users
    from jobboard.operate.verdict import Limits

    if root_path and not root_path.startswith("/"):
        raise click.UsageError(f"--root-path begins with a slash: /{root_path}")
    if urls := [name for name in hosts if "/" in name]:
        raise click.UsageError(f"--allow-host is a host's name, such as ops.example.org, not {urls[0]!r}")
    if anonymous and not behind_proxy:
        raise click.UsageError("--anonymous is for --behind-proxy: without a proxy --allow says what all users may do")
    users = _users_of(auth)
    if auth is not None and is_readable_by_all(auth):
        session.output.warn(
            f"jobboard: every user of this host can read the passwords in {auth}: chmod 600 {argument(str(auth))}"
        )
    _check_address(host, users is not None or behind_proxy)
    own = _own_rights(allow, users, behind_proxy)
    rights = _rights_of("--allow", [each for each in allow if "=" not in each])
    # Of --auth every user is known, also where the proxy names none, or another one.
    is_named_by_proxy = behind_proxy and users is None
    user_of = forwarded_user if is_named_by_proxy else _authenticated
    access = allow_users(user_of, rights, own, _rights_of("--anonymous", anonymous) if is_named_by_proxy else rights)
    boards = _boards_of(session, uris, board_name)
    names = {*LOOPBACK, *hosts, f"[{host}]" if ":" in host else host}
    who = user_or_console if is_named_by_proxy else None
    app = console(by_slug(boards), access=access, who=who, hosts=names, rates=rates, limits=Limits(max_wait, max_run))
    if users is not None:
        from jobboard.console.basic_auth import BasicAuth

        app = BasicAuth(app, users)
    run(app, host, port, root_path, is_behind_proxy=behind_proxy)


def _authenticated(request: Request) -> str | None:
    user = request.scope.get("user")
    return None if user is None else str(user.username)


def _own_rights(
    allow: Sequence[str], users: Mapping[str, str] | None, is_behind_proxy: bool
) -> dict[str, frozenset[str]]:
    """Return the rights that are given to single users."""
    own: dict[str, list[str]] = defaultdict(list)
    for user, is_one, rights in (each.partition("=") for each in allow):
        if is_one:
            own[user].append(rights)
    if own and users is None and not is_behind_proxy:
        raise click.UsageError("--allow USER=RIGHT needs to know users: by --auth or --behind-proxy")
    for user in own:
        if users is not None and user not in users:
            raise click.UsageError(f"--allow: there is no user {user!r} in --auth")
    return {user: _rights_of("--allow", rights) for user, rights in own.items()}


def _rights_of(option: str, given: Sequence[str]) -> frozenset[str]:
    from jobboard.console.rights import RIGHTS, check_rights

    named = [right.strip() for rights in given for right in rights.split(",") if right.strip()]
    try:
        return check_rights(RIGHTS if "all" in named else named)
    except ValueError as error:
        raise click.UsageError(f"{option}: {error}") from error


def _users_of(auth: Path | None) -> dict[str, str] | None:
    from jobboard.console.basic_auth import read_users

    text = os.environ.get(_AUTH) if auth is None else read_text(f"@{auth}")
    if text is None:
        return None
    try:
        return read_users(text)
    except ValueError as error:
        raise click.UsageError(f"{auth or _AUTH}: {error}") from error


def _check_address(host: str, is_guarded: bool) -> None:
    try:
        is_loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError as error:
        raise click.UsageError(f"--host: {host!r} is no IP address") from error
    if not is_loopback and not is_guarded:
        raise click.UsageError(
            f"--host {host} lets other machines look at the boards: add --auth FILE, or --behind-proxy if a proxy lets "
            "only known users through"
        )


def _boards_of(session: Session, uris: Sequence[str], name: str | None) -> list[tuple[str, JobBoard]]:
    """Return the boards, each with the name of its table in the configuration, or else its own.

    What can't be reached now is tried again for each page. What does not exist is refused, but for one of several
    boards of the configuration.
    """
    boards: list[tuple[str, JobBoard]] = []
    places = _places_of(session, uris, name)
    for place in places:
        uri, board_name = place, name or session.given_name
        if isinstance(place, str) and (named := _NAMED.fullmatch(place)):
            board_name, uri = named.groups()
        try:
            one = Session(uri, board_name, session.output, session.config)
            board = one.closed_board(create=False)
            table = None if board_name else one.settings().table
        except click.UsageError as error:
            if uris or len(places) == 1:
                raise
            session.output.warn(f"{place} is left out: {error.message}")
            continue
        try:
            click.get_current_context().call_on_close(board.close)
            board.connect()
        except (BoardUnavailable, NotFound) as error:
            if isinstance(error, NotFound) and (uris or len(places) == 1):
                raise
            session.output.warn(f"{board.name}: {str(error).rstrip('.')}; its pages try again")
        boards.append((table or board.name, board))
    return boards


def _places_of(session: Session, uris: Sequence[str], name: str | None) -> Sequence[str | Mapping[str, Any] | None]:
    """Return where the boards are: as given, or else all of the configuration if nothing chooses one of them."""
    from jobboard.configuration import configuration

    if uris or session.uri is not None or name or session.given_name:
        return uris or [session.uri]
    found = configuration(session.config)
    return list(found.boards) if found and found.boards else [None]


COMMANDS = (serve,)
