#!/usr/bin/env bash
# Execute one part of the plan from nothing. CHAPTERS: options of `book run`, as the plan has them.
set -euo pipefail
read -ra options <<<"$CHAPTERS"
"${BOOK:-.venv/bin/book}" run "${options[@]}" --to results
