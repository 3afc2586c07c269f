#!/usr/bin/env bash
# Make .venv from a lock file: environment.sh LOCK
# Does nothing where BOOK names a `book` that is there already, as when a workflow is tried locally.
set -euo pipefail
if [ -n "${BOOK:-}" ]; then
  "$BOOK" --help >/dev/null
  exit
fi
sh code/bookbuild/environment.sh "$1"
