#!/usr/bin/env bash
# Put what the watch found together in watch/report.md: watch-report.sh KIND…
# A kind without a result is reported as such: its job failed before it had one.
set -euo pipefail
mkdir -p watch
arguments=()
for kind in "$@"; do
  if [ -f "watch/$kind.json" ]; then
    arguments+=("watch/$kind.json")
  else
    arguments+=(--missing "$kind")
  fi
done
if [ -f watch/links.json ]; then arguments+=(--links watch/links.json); else arguments+=(--missing links); fi
"${BOOK:-.venv/bin/book}" watch report --to watch/report.md "${arguments[@]}" || [ $? -eq 1 ]
