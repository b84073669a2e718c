"""`python -m gough`."""

from gough.app.cli import main

main()
