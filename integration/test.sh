#!/usr/bin/env bash
# Runs the tests: test.sh [ARGUMENTS of cargo test]; without arguments all of the workspace.
# Closes with a line "N passed, N failed" over all test programs, and fails if one failed or none ran.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# -eq 0 ]; then set -- --workspace; fi
set -- --features integration/live,integration/kafka "$@"
cargo build --locked -p broker --bin kelda
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
cargo test --locked --no-fail-fast "$@" 2>&1 | tee "$log" || status=$?
awk -v status="$status" '
  /^test result: / { passed += $4; failed += $6 }
  END {
    if (status != 0 && failed == 0) failed = 1
    printf "%d passed, %d failed\n", passed, failed
    exit !(passed > 0 && failed == 0)
  }' "$log"
