#!/usr/bin/env bash
# Make a folder of notebooks the only content of the branch that Colab opens: push-notebooks.sh FOLDER
# REMOTE is the repository; GH_TOKEN may write to it. The branch has no history: it is built anew.
set -euo pipefail
branch=notebooks
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -R "$1/." "$work"
commit=$(git rev-parse --short HEAD)
credentials=$(printf 'x-access-token:%s' "${GH_TOKEN:-}" | base64 | tr -d '\n')
cd "$work"
git init -q -b "$branch"
git add -A
git -c user.name='github-actions[bot]' -c user.email='41898282+github-actions[bot]@users.noreply.github.com' \
  commit -q -m "Notebooks built from $commit"
# The token is a header: in an address it would stand in what is printed on failure.
git -c http.extraheader="Authorization: Basic $credentials" push -q --force "$REMOTE" "$branch"
