"""From APScheduler 3 to schedules on a board: its keywords, and its job stores. Needs no APScheduler."""

from jobboard.apscheduler.converting import Converted, convert_job, convert_trigger

__all__ = ["Converted", "convert_job", "convert_trigger"]
