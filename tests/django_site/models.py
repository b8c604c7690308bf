"""One table, to see what a transaction wrote."""

from __future__ import annotations

from django.db import models


class Order(models.Model):
    number = models.IntegerField(unique=True)
