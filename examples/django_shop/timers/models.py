"""The table that the tasks replace, as it is; it can be dropped when it is empty."""

from django.db import models


class Timer(models.Model):
    id = models.BigAutoField(primary_key=True)
    task_type = models.CharField(max_length=50)
    business_key = models.CharField(max_length=100)
    payload = models.TextField(null=True)
    execute_at = models.DateTimeField()
    status = models.CharField(max_length=10)
    priority = models.IntegerField(default=0)
    locked_by = models.CharField(max_length=100, null=True)
    locked_until = models.DateTimeField(null=True)
    retry_count = models.IntegerField(default=0)
    max_retries = models.IntegerField(default=3)
    last_error = models.TextField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        managed = False
        db_table = "t_task"
