"""Orders and their invoices."""

from django.db import models


class Order(models.Model):
    number = models.IntegerField(unique=True)
    state = models.CharField(max_length=10, default="open")
    pay_until = models.DateTimeField(null=True)


class Invoice(models.Model):
    order = models.OneToOneField(Order, on_delete=models.CASCADE)
