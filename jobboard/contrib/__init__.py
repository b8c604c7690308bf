"""What brings a board to other frameworks; each package needs the extra of its name."""
