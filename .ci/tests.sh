#!/usr/bin/env bash
# Lint and all tests, on a machine of GitHub's: with its Chrome, and a font that tests measure.
set -euo pipefail
if ! fc-list 2>/dev/null | grep -q DejaVu; then
  sudo apt-get update -qq
  sudo apt-get install -y -qq --no-install-recommends fonts-dejavu-core
fi
if [ -z "${CHROMIUM:-}" ] && ! command -v chromium >/dev/null; then
  CHROMIUM=$(command -v google-chrome)
  export CHROMIUM
fi
make test
