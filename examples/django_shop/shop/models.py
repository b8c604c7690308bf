"""Orders and their invoices."""

from django.db import models


class Order(models.Model):
    number = models.IntegerField(unique=True)


class Invoice(models.Model):
    order = models.OneToOneField(Order, on_delete=models.CASCADE)
