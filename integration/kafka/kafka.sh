#!/usr/bin/env bash
# Fetches, formats, starts and stops the Apache Kafka that Kelda is compared with. One node, broker and controller.
#
#   kafka.sh fetch                               fetch the jars once, print their folder
#   kafka.sh configure DIR PORT [NAME=VALUE...]  write DIR/server.properties (log.dirs = DIR/data) and format the data folder
#   kafka.sh run DIR                             run the broker in the foreground (the process becomes the JVM)
#   kafka.sh start DIR PORT [NAME=VALUE...]      configure where needed, run in the background, wait until it serves; prints the pid
#   kafka.sh stop DIR                            stop it cleanly (SIGTERM) and wait
#   kafka.sh kill DIR                            SIGKILL it and wait
#   kafka.sh tool CLASS [ARGUMENTS...]           run one of Kafka's command line tools by class name
#
# The controller listens on PORT + 1. DIR/broker.log holds the log, DIR/broker.pid the process id.
# KELDA_CACHE names the cache folder (else $XDG_CACHE_HOME/kelda or ~/.cache/kelda); KAFKA_LIBS a folder of jars to use instead of fetching;
# KAFKA_HEAP_OPTS and KAFKA_JVM_PERFORMANCE_OPTS override the JVM settings, whose defaults are those of Kafka's own start script.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
version=$(sed -n 's:.*<kafka.version>\(.*\)</kafka.version>.*:\1:p' "$here/pom.xml")
cache=${KELDA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kelda}
cluster_id=${KAFKA_CLUSTER_ID:-5L6g3nShT-eMCtK--X86sw}
java=${JAVA_HOME:+$JAVA_HOME/bin/}java

fail() { echo "kafka.sh: $*" >&2; exit 1; }

fetch() {
  if [ -n "${KAFKA_LIBS:-}" ]; then echo "$KAFKA_LIBS"; return; fi
  local libs=$cache/kafka-$version
  if [ ! -f "$libs/.complete" ]; then
    mkdir -p "$cache"
    exec 8>"$cache/.kafka.lock"; flock 8
    if [ ! -f "$libs/.complete" ]; then
      rm -rf "$libs"
      mvn -q -B -f "$here/pom.xml" dependency:copy-dependencies -DincludeScope=runtime "-DoutputDirectory=$libs" >&2
      [ -f "$libs/kafka-clients-$version.jar" ] || fail "Maven did not bring kafka-clients-$version.jar"
      touch "$libs/.complete"
    fi
    exec 8>&-
  fi
  echo "$libs"
}

# Becomes the JVM: jvm HEAP CLASS ARGUMENTS...
jvm() {
  local heap=$1 libs; shift
  libs=$(fetch)
  # shellcheck disable=SC2086  # the options are lists of words
  exec "$java" $heap ${KAFKA_OPTS:-} "-Dlog4j2.configurationFile=${KAFKA_LOG4J:-$here/log4j2.yaml}" -cp "$libs/*" "$@"
}

tool() { (KAFKA_LOG4J="$here/log4j2-tools.yaml" jvm "-Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1" "$@"); }

configure() {
  local dir=$1 port=$2; shift 2
  mkdir -p "$dir/data"
  local file=$dir/server.properties
  {
    cat <<PROPERTIES
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$((port + 1))
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$((port + 1))
advertised.listeners=PLAINTEXT://127.0.0.1:$port
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$dir/data
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
PROPERTIES
    printf '%s\n' "$@"
  } > "$file"
  if [ ! -f "$dir/data/meta.properties" ]; then
    tool kafka.tools.StorageTool format -t "$cluster_id" -c "$file" --ignore-formatted > "$dir/format.log" 2>&1 \
      || { cat "$dir/format.log" >&2; fail "format failed"; }
  fi
}

run() {
  local dir=$1
  local performance=${KAFKA_JVM_PERFORMANCE_OPTS:--server -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35 -XX:+ExplicitGCInvokesConcurrent -Djava.awt.headless=true}
  jvm "${KAFKA_HEAP_OPTS:--Xmx1G -Xms1G} $performance" kafka.Kafka "$dir/server.properties"
}

start() {
  local dir=$1; shift
  [ $# -gt 0 ] && configure "$dir" "$@"
  fetch > /dev/null
  : > "$dir/broker.log"
  (run "$dir" > "$dir/broker.log" 2>&1 < /dev/null & echo $! > "$dir/broker.pid")
  local pid; pid=$(cat "$dir/broker.pid")
  for _ in $(seq 1200); do
    grep -q 'Kafka Server started' "$dir/broker.log" && { echo "$pid"; return; }
    kill -0 "$pid" 2> /dev/null || { tail -50 "$dir/broker.log" >&2; fail "the broker ended while starting"; }
    sleep 0.1
  done
  tail -50 "$dir/broker.log" >&2; kill -9 "$pid"; fail "the broker did not start in 120 s"
}

# Sends a signal and waits until the process is gone: end SIGNAL DIR
end() {
  local signal=$1 dir=$2 pid
  [ -f "$dir/broker.pid" ] || return 0
  pid=$(cat "$dir/broker.pid")
  kill "-$signal" "$pid" 2> /dev/null || true
  for _ in $(seq 1200); do
    kill -0 "$pid" 2> /dev/null || { rm -f "$dir/broker.pid"; return 0; }
    sleep 0.1
  done
  kill -9 "$pid"; fail "the broker did not stop in 120 s and was killed"
}

[ $# -gt 0 ] || { sed -n '2,15s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2; }
command=$1; shift
case $command in
  fetch) fetch ;;
  configure) configure "$@" ;;
  run) run "$@" ;;
  start) start "$@" ;;
  stop) end TERM "$@" ;;
  kill) end KILL "$@" ;;
  tool) tool "$@" ;;
  *) fail "unknown command $command" ;;
esac
