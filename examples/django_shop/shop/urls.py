"""The shop's pages."""

from django.urls import path

from shop import views

urlpatterns = [
    path("orders/<int:number>", views.order),
    path("tasks/<str:result_id>", views.task),
    path("invoices", views.invoices),
]
