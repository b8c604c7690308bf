"""What the functional tests share: harnesses of the contract, fixtures, handlers, and programs run as processes."""
