"""From the job stores of APScheduler 3 to schedules on a board. Needs no APScheduler."""
