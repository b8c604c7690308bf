"""``python -m jobboard`` is the command line."""

from jobboard.cli import main

if __name__ == "__main__":
    main()
