"""Run once at each deployment, on any host: puts the schedule on the board."""

import os

import jobboard
from jobboard import Every, Schedule

EVERY = float(os.environ.get("REPORT_EVERY", "60"))


def main() -> None:
    """Add the schedule; a new interval replaces the old one, and anything else keeps its progress."""
    # A fire time that comes while no scheduler or conductor runs is made up for, each by a job of its own.
    report = Schedule("report", Every(seconds=EVERY), "report", coalesce="all", max_instances=None)
    with jobboard.open("reports", os.environ["JOBBOARD_URI"]) as board:
        board.schedules.add(report, if_exists="replace")


if __name__ == "__main__":
    main()
