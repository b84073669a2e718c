"""`python -m gough`."""

from gough.cli import main

main()
