#!/usr/bin/env bash
# Render the site with Quarto from the committed freeze: render.sh VERSION
# Nothing may be executed: there is no environment for it, and the freeze must stay as it is.
set -euo pipefail
found=$(quarto --version)
if [ "$found" != "$1" ]; then
  echo "quarto is $found, the book is published with $1" >&2
  exit 1
fi
quarto render
# Quarto keeps libraries of its own beside the chapters' results.
changed=$(git status --porcelain -- _freeze ':(exclude)_freeze/site_libs')
if [ -n "$changed" ]; then
  printf 'quarto executed something; the committed freeze was stale:\n%s\n' "$changed" >&2
  exit 1
fi
