#!/usr/bin/env bash
# Put into rendered pages what can be taken away: complete-site.sh FOLDER
# Notebooks, Markdown copies, the printed book, the EPUB; nothing that is there is overwritten.
set -euo pipefail
book=${BOOK:-.venv/bin/book}
"$book" pdf
"$book" epub
(cd _book && find . -type f \( -path './notebooks/*' -o -name '*.md' -o -name '*.pdf' -o -name '*.epub' -o -name llms.txt \)) |
  while read -r path; do
    if [ ! -e "$1/$path" ]; then
      mkdir -p "$1/$(dirname "$path")"
      cp "_book/$path" "$1/$path"
    fi
  done
