"""Schedules: when jobs are due, and who posts them."""
