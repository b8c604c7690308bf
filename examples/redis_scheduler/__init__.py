"""A report every minute: schedulers on two hosts, and the Redis that they share. The README says how to run it."""
