#!/usr/bin/env bash
# Scenarios of kcat: kcat.sh ADDRESS SCENARIO
set -euo pipefail
address=$1 scenario=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "kcat: $*" >&2; exit 1; }
k() { timeout 60 kcat -b "$address" "$@"; }

seq 1000 | sed 's/.*/k&:value number &/' > "$work/sent"
case $scenario in
  records)
    for codec in none gzip snappy lz4 zstd; do
      for acks in all 1; do
        topic=kcat-$codec-$acks-$$
        # The first metadata makes the topic.
        k -P -t "$topic" -p 0 -K : -z "$codec" -X "acks=$acks" -H one=1 "$work/sent" -l
        k -C -t "$topic" -p 0 -o beginning -e -q -K : > "$work/read"
        cmp "$work/sent" "$work/read" || fail "$codec, acks $acks: what is read is not what was sent"
        k -C -t "$topic" -p 0 -o 990 -e -q -K : > "$work/read"
        tail -10 "$work/sent" | cmp - "$work/read" || fail "$codec: reading from offset 990"
        k -C -t "$topic" -p 0 -o -3 -e -q -f '%o %h\n' > "$work/read"
        printf '%s one=1\n' 997 998 999 | cmp - "$work/read" || fail "$codec: the last three, with headers"
        [ "$(k -Q -t "$topic:0:0")" = "$topic [0] offset 0" ] || fail "$codec: offset by time"
      done
    done
    k -L -J > "$work/metadata"
    grep -q '"brokers":\[{' "$work/metadata" || fail "metadata names a broker"
    ;;
  groups)
    topic=kcat-group-$$
    k -P -t "$topic" -p 0 -K : "$work/sent" -l
    timeout 60 kcat -b "$address" -G "kcat-group-$$" -X auto.offset.reset=earliest -X enable.auto.commit=true -c 600 -q -K : "$topic" > "$work/read"
    timeout 60 kcat -b "$address" -G "kcat-group-$$" -X auto.offset.reset=earliest -c 400 -q -K : "$topic" >> "$work/read"
    cmp "$work/sent" "$work/read" || fail "a group that resumes reads all once"
    ;;
  *) fail "unknown scenario $scenario" ;;
esac
echo ok
