"""The shop's pages."""

from django.contrib import admin
from django.urls import path

from shop import views

urlpatterns = [
    path("admin/", admin.site.urls),
    path("orders/<int:number>", views.order),
    path("tasks/<str:result_id>", views.task),
    path("invoices", views.invoices),
]
