"""With Celery."""
