#!/usr/bin/env bash
# Render the site from the freeze, and follow every link that leads out of it.
set -euo pipefail
"${BOOK:-.venv/bin/book}" render
"${BOOK:-.venv/bin/book}" watch links --to watch/links.json
