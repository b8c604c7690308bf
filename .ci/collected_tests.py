"""A plug-in of pytest: the garbage collector does not look through the collected tests again and again.

They are some 10,000 in each worker, and stay until its end. What is frozen is not among the referrers of an object, by
which the oldest hypothesis decides whether a source of random numbers may go: with it, ``-p no:collected_tests``.
"""

from __future__ import annotations

import gc
from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    gc.disable()
    try:
        return (yield)
    finally:
        # What is garbage already is still told of.
        gc.collect()
        gc.freeze()
        gc.enable()
