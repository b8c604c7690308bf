"""A simulator of limits: it runs arrivals of jobs on a board in memory, under a clock of its own."""
