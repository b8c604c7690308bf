"""A flow of TaskFlow that survives its engine; see README.rst."""
