"""Moments in the zone in which people read them: a schedule's own, or else the operator's."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from jobboard.schedules.triggers.zones import zone_named


def in_zone(moment: datetime, zone: str) -> datetime:
    """Return the moment on the clocks of a schedule's zone; on the operator's (``TZ``) if it has none of its own."""
    return moment.astimezone(None if zone == "UTC" else zone_named(zone))


def row_in_zone(row: dict[str, Any]) -> dict[str, Any]:
    """Return a schedule's row, with its next fire time in its zone."""
    at = row.get("next_fire_time")
    return row if at is None else row | {"next_fire_time": in_zone(at, row["zone"])}
