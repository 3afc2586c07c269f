#!/bin/sh
# Make the project's environment in .venv from a lock file, once.
#
# usage: environment.sh LOCK        (in the project's folder)
#
# Everything is installed from the lock with hashes. `requirements-test.lock` holds all of
# `requirements.lock` and more: an environment made from it serves both.
set -eu
lock=$1

# Nothing to do where the lock, and the project's own metadata, are what the environment was made from.
# An environment knows its own place: one that was moved with the project is made again.
here=$(pwd -P)
made_from() {
  cmp -s "$1" ".venv/made-from/$1" && cmp -s pyproject.toml .venv/made-from/pyproject.toml &&
    [ "$(cat .venv/made-from/place)" = "$here" ]
}
if made_from requirements.lock && made_from "$lock"; then exit 0; fi

python=${PYTHON:-}
if [ -z "$python" ]; then
  # First the minor that the frozen results come from: with another one every chapter is executed anew.
  frozen=""
  for record in _freeze/chapters/*/execute-results/inputs.json; do
    [ -f "$record" ] || continue
    while read -r line; do
      case $line in '"python": "3.'*) line=${line#*: \"} frozen=python${line%%\"*} ;; esac
    done <"$record"
  done
  for name in $frozen python3 python3.13 python3.12 python3.11; do
    if "$name" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
      python=$name
      break
    fi
  done
fi
if [ -z "$python" ]; then
  echo "No Python 3.11, 3.12 or 3.13 on PATH (TensorFlow has no build for others): install one, or name it: make PYTHON=/path/to/python3.12 site" >&2
  exit 1
fi

if [ ! -x .venv/bin/python ] || ! cmp -s requirements.lock .venv/made-from/requirements.lock ||
  [ "$(cat .venv/made-from/place)" != "$here" ]; then
  echo "making .venv with $("$python" --version) from requirements.lock: about a minute and 2.5 GB" >&2
  rm -rf .venv
  if ! "$python" -m venv .venv 2>.venv.log; then
    cat .venv.log >&2
    rm -rf .venv .venv.log
    echo "\"$python -m venv\" failed; on Debian and Ubuntu install python3-venv first" >&2
    exit 1
  fi
  rm -f .venv.log
fi

pip="env PIP_DISABLE_PIP_VERSION_CHECK=1 .venv/bin/python -m pip --quiet --quiet install"
for file in requirements.lock "$lock"; do
  cmp -s "$file" ".venv/made-from/$file" && continue
  [ "$file" = requirements.lock ] || echo "adding to .venv what the tests need" >&2
  # The lock is complete: what it leaves out of a package's own list is left out on purpose.
  $pip --no-deps --require-hashes -r "$file"
  mkdir -p .venv/made-from
  cp "$file" ".venv/made-from/$file"
done
echo "$here" >.venv/made-from/place
# The build backend is in the lock: nothing is fetched for it.
$pip --no-deps --no-build-isolation --editable .
cp pyproject.toml .venv/made-from/pyproject.toml
