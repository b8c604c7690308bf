"""A shop's background tasks, before and after the move from Celery. The README says how to run both."""
