"""Orders over HTTP, and the jobs that they cause, in one PostgreSQL. The README says how to run it."""
