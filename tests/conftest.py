"""What all tests share."""

from hypothesis import settings

# The machine is shared and slow at times: an example may take long without anything being wrong.
settings.register_profile("book", deadline=None, derandomize=True)
settings.load_profile("book")
