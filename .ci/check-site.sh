#!/usr/bin/env bash
# Check rendered pages, whoever made them: check-site.sh FOLDER
set -euo pipefail
"${BOOK:-.venv/bin/book}" check-site "$1"
