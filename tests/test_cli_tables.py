"""Tables on terminals of any width: what they show is whole, and what needs a look has a colour."""

from __future__ import annotations

import io
import re
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console
from rich.text import Text

from jobboard.cli.colours import style_of
from jobboard.cli.output import Output, _cell
from jobboard.cli.tables import endings, table_of
from jobboard.cli.watching import COLUMNS

UUIDS = ["5f347f3f-5f2f-457f-be53-ad48fa5a8830", "5f347f3f-5f2f-457f-be53-ae48fa5a8830"]
OWNER = "worker-17@a-host-with-a-long-name.example.org:12345:abcdef01"
NAME = "send-monthly-invoice-reminder-to-customers"
VALUES = {
    "uuid": UUIDS, "name": [NAME, "poll"], "state": ["UNCLAIMED", "CLAIMED"], "owner": ["-", OWNER],
    "priority": ["VERY_HIGH", "NORMAL"], "key": ["customer/4711/invoice/2026-11", "鍵" * 30], "attempts": ["0", "12"],
    "created_on": ["14 min ago", "3 d ago"], "reason": ["it is bad " * 20, "x" * 200], "stuck": ["1", "0"],
    "next_fire_time": ["2026-11-23 03:00:00+01:00", "-"], "when": ["at 03:00 on Monday to Friday", "every hour"],
}  # fmt: skip
TABLES = [
    ["uuid", "name", "state", "priority", "key", "attempts", "owner", "created_on"],
    ["uuid", "name", "attempts", "trashed_on", "reason"],
    ["owner", "jobs", "names", "oldest", "next_expiry", "alive", "stuck"],
    ["kind", "name", "alive", "last_seen", "executor", "running", "concurrency", "stuck", "healthy", "quiet", "names"],
    ["id", "state", "next_fire_time", "job", "when", "runs", "missed", "skipped", "note"],
    ["name", "unclaimed", "next_waits", "delayed", "claimed", "trashed", "conductors", "paused"],
    ["name", "state", "owner"],
]


def cells_of(columns: list[str]) -> dict[str, list[Text]]:
    return {column: [Text(value) for value in VALUES.get(column, ["10 min", "conductor"])] for column in columns}


def drawn(table: object, width: int) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width).print(table)
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [30, 40, 60, 80, 100, 140, 400])
@pytest.mark.parametrize("columns", TABLES, ids=lambda columns: columns[0] + str(len(columns)))
def test_nothing_is_cut(columns: list[str], width: int) -> None:
    cells = cells_of(columns)
    table = table_of(cells, width)
    if table is None:
        assert width <= 80, "then each row is a block of lines"
        return
    shown = [column for column in columns if column.replace("_", " ") in {one.header for one in table.columns}]
    assert {"uuid", "name", "state", "owner", "id"} & set(columns) <= set(shown)
    whole = [*(text for column in shown if column != "uuid" for text in (column.replace("_", " "), *cells[column]))]
    lines = drawn(table, width)
    letters = sum(len(re.sub(r"\s", "", str(text))) for text in whole)
    if "uuid" in shown:
        letters += len("uuid") + sum(len(str(part)) for part in _uuid_column(table))
    assert len(re.sub(r"\s", "", "".join(lines))) == letters
    assert all(Text(line).cell_len <= width for line in lines)


def _uuid_column(table: object) -> list[Text]:
    from rich.table import Table

    assert isinstance(table, Table)
    (cells,) = [list(column.cells) for column in table.columns if column.header == "uuid"]
    return [cell for cell in cells if isinstance(cell, Text)]


@pytest.mark.parametrize("columns", TABLES[:1] + TABLES[3:5])
def test_80_columns_are_enough_for_a_table(columns: list[str]) -> None:
    assert table_of(cells_of(columns), 80) is not None


def test_columns_that_were_asked_for_are_all_shown_or_none() -> None:
    cells = cells_of(list(COLUMNS))
    assert table_of(cells, 200, droppable=False) is None
    table = table_of(cells, 1000, droppable=False)
    assert table is not None
    assert len(table.columns) == len(COLUMNS)


def test_uuids_are_shortened_to_where_they_differ() -> None:
    same = "1234567-89ab-7cde-8f01-234567890abc"
    assert [str(one) for one in endings([Text(f"a{same}"), Text(f"b{same}")])] == [f"a{same}", f"b{same}"]
    short = endings([Text(f"a{same}"), Text(f"a{same}"), Text("x-21234567")])
    assert [str(one) for one in short] == ["67890abc", "67890abc", "21234567"]
    assert [str(one) for one in endings([Text(uuid) for uuid in UUIDS])] == [uuid[-11:] for uuid in UUIDS]


def test_a_row_that_fits_no_table_is_a_block(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output()
    output.console = Console(width=20, force_terminal=True, color_system=None)
    rows = [{"name": NAME, "state": "TRASHED", "owner": OWNER, "reason": None}, {"name": "poll", "state": "DELAYED"}]
    output.table(("name", "state", "owner", "reason", "run_at"), rows, empty="", droppable=False)
    assert capsys.readouterr().out == (
        f"name    {NAME}\nstate   TRASHED\nowner   {OWNER}\n\nname    poll\nstate   DELAYED\n"
    )


@pytest.mark.parametrize(
    ("field", "value", "style"),
    [
        ("state", "TRASHED", "red"), ("state", "CLAIMED", ""), ("state", "set aside", "red"), ("alive", False, "red"),
        ("alive", True, ""), ("alive", None, ""), ("healthy", False, "red"), ("stuck", 1, "yellow"), ("stuck", 0, ""),
        ("trashed", 2, "red"), ("name", "TRASHED", ""), ("names", ["a"], ""), ("quiet", True, "yellow"),
        ("next_fire_time", datetime.now(UTC) - timedelta(hours=1), "red"),
        ("next_fire_time", datetime.now(UTC) + timedelta(days=1), ""),
        ("created_on", datetime(2020, 1, 1, tzinfo=UTC), ""),
    ],
)  # fmt: skip
def test_what_needs_a_look_has_a_colour(field: str, value: object, style: str) -> None:
    assert style_of(field, value) == style
    assert "\x1b" not in _cell(field, value), "only on a terminal"
