"""The demo: several conductor processes hash the files of a directory, and one of them is killed on the way."""
