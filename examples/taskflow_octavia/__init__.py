"""Octavia's jobs on a board."""
