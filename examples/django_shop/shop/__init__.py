"""A shop that invoices its orders by tasks."""
