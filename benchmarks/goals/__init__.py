"""What jobboard is to reach, beside its peers and its own past: measured in one run, and told as met or missed."""
