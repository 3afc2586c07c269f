"""What every number of the book must be, and the check that it still is.

In a chapter's cell, `check(id, value)` compares a freshly computed value with `ledger.toml` and
hands it back; in its prose, `say(id)` prints it. Both work in any Jupyter kernel that runs inside
the book's folder, whoever started it.
"""

from ledger.entries import Entry, LedgerError, load_ledger
from ledger.recording import begin_under_quarto
from ledger.session import DriftError, check, say

__all__ = ["DriftError", "Entry", "LedgerError", "check", "load_ledger", "say"]

begin_under_quarto()
