#!/bin/sh
# Put what judges the built pages into tests/web-tools/node_modules, once for each package-lock.json.
#
# usage: install.sh
#
# Without npm, or where its registry cannot be reached, the tests that need the tools are skipped.
set -eu
cd "$(dirname "$0")"
if ! command -v npm >/dev/null || cmp -s package-lock.json node_modules/made-from.json; then exit 0; fi
echo "adding what judges the pages to tests/web-tools" >&2
if npm ci --silent; then
  cp package-lock.json node_modules/made-from.json
else
  rm -rf node_modules
  echo "npm could not add it: the tests that need it are skipped" >&2
fi
