#!/usr/bin/env bash
# Say which jobs the verification is divided into, as the output `matrix` of the step.
# Stops at sources that cannot be read, and at numbers in prose that no entry of the ledger owns.
set -euo pipefail
matrix=$("${BOOK:-.venv/bin/book}" plan --json)
echo "matrix=$matrix" >>"${GITHUB_OUTPUT:-/dev/stdout}"
