"""`python -m callmcp`."""

from callmcp.cli import main

if __name__ == "__main__":
    main()
