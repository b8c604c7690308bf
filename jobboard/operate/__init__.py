"""What operators do and see, as functions over a board: the command line and the web page are thin faces of it."""
