"""The graph around a job: which jobs it waits for, which wait for it, and how they all stand."""
