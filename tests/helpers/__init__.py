"""What the tests share: harnesses, handlers, clocks, and short ways to a command or to the seam."""
