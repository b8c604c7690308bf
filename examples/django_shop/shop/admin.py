"""The shop's orders in the admin, each with its jobs."""

from django.contrib import admin

from jobboard.contrib.django.admin import JobsMixin
from shop.models import Order
from shop.tasks import thank


@admin.register(Order)
class OrderAdmin(JobsMixin, admin.ModelAdmin):
    jobboard_tasks = [thank]
