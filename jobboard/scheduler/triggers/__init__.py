"""Triggers: when something is due, as plain data that any client can read. They know no store."""

from jobboard.scheduler.triggers.all_of import AllOf
from jobboard.scheduler.triggers.any_of import AnyOf
from jobboard.scheduler.triggers.at import At
from jobboard.scheduler.triggers.calendar import Calendar
from jobboard.scheduler.triggers.cron import Cron
from jobboard.scheduler.triggers.every import Every
from jobboard.scheduler.triggers.excluding import Excluding
from jobboard.scheduler.triggers.plain import trigger_from_plain
from jobboard.scheduler.triggers.trigger import Trigger

__all__ = ["AllOf", "AnyOf", "At", "Calendar", "Cron", "Every", "Excluding", "Trigger", "trigger_from_plain"]
