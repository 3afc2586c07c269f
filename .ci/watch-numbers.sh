#!/usr/bin/env bash
# Recompute every number with the libraries of .book/watch/KIND: watch-numbers.sh KIND
set -euo pipefail
python=${WATCH_PYTHON:-.book/watch/$1/bin/python}
"${BOOK:-.venv/bin/book}" watch numbers --name "$1" --python "$python" --to "watch/$1.json"
