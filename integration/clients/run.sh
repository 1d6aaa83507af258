#!/usr/bin/env bash
# Runs a scenario of a stock client against a broker: run.sh CLIENT ADDRESS SCENARIO
#   CLIENT    java | confluent | kafka-python | franz | kcat
#   SCENARIO  records | groups
# What the client needs is installed once, into the cache folder that kafka.sh uses ($KELDA_CACHE, else ~/.cache/kelda);
# kcat comes from the system's packages. Prints "ok" and exits with 0 when all is as it should be.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${KELDA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kelda}
mkdir -p "$cache"

# once NAME COMMAND...: runs the command under a lock unless $cache/NAME is there; the command is to make it last.
once() {
  local made=$cache/$1; shift
  [ -e "$made" ] && return
  exec 7> "$cache/.clients.lock"; flock 7
  [ -e "$made" ] || "$@" >&2
  exec 7>&-
}

sum() { cat "$@" | sha256sum | cut -c1-12; }

java_install() {
  local out=$1 libs=$2
  rm -rf "$out.new"; mkdir -p "$out.new"
  javac -d "$out.new" -cp "$libs/*" "$here"/java/*.java
  mv "$out.new" "$out"
}

python_install() {
  local venv=$1
  rm -rf "$venv"
  python3 -m venv "$venv" || {
    apt-get install -y -qq python3-venv
    rm -rf "$venv"; python3 -m venv "$venv"
  }
  "$venv/bin/pip" install -q --disable-pip-version-check -r "$here/python/requirements.txt"
  touch "$venv/complete"
}

go_install() {
  (cd "$here/go" && GOFLAGS=-mod=readonly go build -o "$1.new" . && mv "$1.new" "$1")
}

kcat_install() {
  command -v kcat > /dev/null || { apt-get update -qq && apt-get install -y -qq kcat; }
  touch "$1"
}

client=$1 address=$2 scenario=$3
case $client in
  java)
    libs=$("$here/../kafka/kafka.sh" fetch)
    classes=java-$(sum "$here"/java/*.java)
    once "$classes" java_install "$cache/$classes" "$libs"
    exec java -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 \
      "-Dlog4j2.configurationFile=$here/../kafka/log4j2-tools.yaml" \
      -cp "$cache/$classes:$libs/*" Compat "$address" "$scenario"
    ;;
  confluent | kafka-python)
    venv=venv-$(sum "$here/python/requirements.txt")
    once "$venv/complete" python_install "$cache/$venv"
    exec "$cache/$venv/bin/python" "$here/python/compat.py" "$client" "$address" "$scenario"
    ;;
  franz)
    binary=franz-$(sum "$here"/go/*.go "$here"/go/go.mod)
    once "$binary" go_install "$cache/$binary"
    exec "$cache/$binary" "$address" "$scenario"
    ;;
  kcat)
    once kcat kcat_install "$cache/kcat"
    command -v kcat > /dev/null || kcat_install "$cache/kcat"
    exec "$here/kcat.sh" "$address" "$scenario"
    ;;
  *) echo "run.sh: unknown client $client" >&2; exit 2 ;;
esac
