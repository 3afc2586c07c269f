#!/usr/bin/env bash
# Carry a report to the one open issue of the watch: watch-issue.sh REPORT
# Opens it when something no longer holds, brings it up to date, closes it when all holds again.
# Needs `gh` with the right to write issues; RUN names the run in comments.
set -euo pipefail
report=$1
label=watch
title="The watch: what no longer holds"
number=$(gh issue list --state open --label "$label" --limit 1 --json number --jq '.[].number')
if grep -q '^Everything holds\.$' "$report"; then
  if [ -n "$number" ]; then
    gh issue edit "$number" --body-file "$report"
    gh issue close "$number" --comment "Everything holds again: ${RUN:-}"
  fi
elif [ -z "$number" ]; then
  gh label create "$label" --force --description "What the weekly watch found" --color B60205
  gh issue create --title "$title" --label "$label" --body-file "$report"
elif [ "$(gh issue view "$number" --json body --jq .body)" != "$(cat "$report")" ]; then
  gh issue edit "$number" --body-file "$report"
  gh issue comment "$number" --body "The report has changed: ${RUN:-}"
fi
