#!/usr/bin/env bash
# Compare what all jobs computed with the committed freeze. Leaves a drift report where one is due.
set -uo pipefail
code=0
"${BOOK:-.venv/bin/book}" merge --compare results || code=$?
if [ -f .book/drift-report.txt ]; then cp .book/drift-report.txt drift-report.txt; fi
exit "$code"
