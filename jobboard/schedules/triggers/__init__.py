"""Triggers: when something is due, as plain data that any client can read. They know no store."""

from jobboard.schedules.triggers.at import At
from jobboard.schedules.triggers.calendar import Calendar
from jobboard.schedules.triggers.combined import AllOf, AnyOf
from jobboard.schedules.triggers.cron import Cron
from jobboard.schedules.triggers.every import Every
from jobboard.schedules.triggers.excluding import Excluding
from jobboard.schedules.triggers.plain import trigger_from_plain
from jobboard.schedules.triggers.trigger import Trigger

__all__ = ["AllOf", "AnyOf", "At", "Calendar", "Cron", "Every", "Excluding", "Trigger", "trigger_from_plain"]
