"""Timers that were rows of a table of the shop's own, and are tasks now."""
