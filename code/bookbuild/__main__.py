"""`python -m bookbuild` is `book`: for a copy of the code that is not the installed one."""

from bookbuild.cli import main

if __name__ == "__main__":
    main(prog_name="book")
