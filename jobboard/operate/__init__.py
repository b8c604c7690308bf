"""What operators do and see, as functions over a board. The command line only formats what they return."""
