"""With jobboard."""
