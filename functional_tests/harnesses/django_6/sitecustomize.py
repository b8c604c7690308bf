"""Lets Django 6, which is for Python 3.12, import on 3.11: one function is all that its tasks lack."""

from __future__ import annotations

import inspect

import asgiref.sync

if not hasattr(inspect, "markcoroutinefunction"):
    inspect.markcoroutinefunction = asgiref.sync.markcoroutinefunction  # type: ignore[attr-defined]
