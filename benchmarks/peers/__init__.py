"""Other libraries that do the same work on the same store, each in an environment of its own.

A folder ``on_STORE`` names its peers in ``PEERS``, and has a script for each, which that peer's own Python runs; what
the scripts share is in ``measuring.py`` and needs the standard library only.
"""
