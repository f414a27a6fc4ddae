"""The entry point of `python -m eigentrack`."""

from eigentrack.cli import main

if __name__ == "__main__":
    main()
