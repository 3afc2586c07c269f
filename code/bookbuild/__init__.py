"""Build the book: execute what is stale, freeze it, render it, and refuse what is wrong."""
