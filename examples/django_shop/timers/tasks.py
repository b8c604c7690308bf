"""What the timers do."""

from django_tasks import task


@task
def remind(order: int, text: str = "unpaid") -> str:
    return f"order {order} is {text}"


#: The task of each ``task_type``.
BY_TYPE = {"REMIND": remind}
