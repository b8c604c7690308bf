"""The scripts of the Redis board, one operation a file; ``include`` has the fragments that they share."""
