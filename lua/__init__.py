"""The scripts of the Redis board, one operation a file."""
