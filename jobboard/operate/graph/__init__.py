"""A graph of jobs for people: folded, placed, and as text."""
