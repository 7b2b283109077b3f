#!/bin/sh
# Runs a command under a lock of the agent, and kills it if the lock cannot be kept. It shows the calls:
# `quorumlock run` does more. Needs curl and Linux.
#   ./lock.sh NAME COMMAND..        QUORUMLOCK_AGENT is the agent's socket
set -u
name=$1
shift

ask() { # METHOD PATH SECONDS [BODY]: prints the answer, which is an object on success and on failure
  curl --silent --show-error --unix-socket "${QUORUMLOCK_AGENT:-/run/quorumlock/agent.sock}" --max-time "$3" \
    --request "$1" --header 'content-type: application/json' --data "${4:-}" "http://agent$2"
}

field() { # NAME ANSWER. In "tokens", a lock's name stands behind a brace
  printf '%s' "$2" | sed -En "s/(^\{|.*,) *\"$1\": *\"?([0-9a-f-]*).*/\2/p"
}

now_ms() { # of a clock that counts the time for which the machine is suspended
  read -r uptime _ </proc/uptime
  echo "${uptime%.*}${uptime#*.}0"
}

# Each curl has a connection of its own, so the lock must not belong to one ("connection": false). The agent ends
# the lock if nobody has kept it for keep_ms. Its deadline counts from the moment before the request.
sent=$(now_ms)
held=$(ask POST /v1/locks 75 "{\"names\": [\"$name\"], \"timeout_ms\": 60000, \"keep_ms\": 30000, \"connection\": false}")
id=$(field id "$held")
[ -n "$id" ] || { echo "no lock: $held" >&2; exit 75; }
deadline=$((sent + $(field until_ms "$held")))

# A session of its own, so that the command is killed together with its children.
TOKEN=$(field token "$held") setsid "$@" &
work=$!

# The process group may get a signal. The keeper ignores it: the work may go on, and needs its deadline.
trap '' INT TERM HUP
while sleep 1 && kill -0 "$work" 2>/dev/null; do
  if [ $((deadline - $(now_ms))) -lt 20000 ]; then
    sent=$(now_ms)
    kept=$(ask POST "/v1/locks/$id/keep" 2)
    until_ms=$(field until_ms "$kept")
    [ -z "$until_ms" ] || deadline=$((sent + until_ms))
    # The answers 410 and 404: the lock has ended before its deadline. Other failures may pass.
    case $kept in *'"error":"lost"'* | *'"error":"unknown"'*) deadline=0 ;; esac
  fi
  # The next look is 3 s later at most.
  if [ $((deadline - $(now_ms))) -lt 4000 ]; then
    echo "the lock is lost" >&2
    kill -KILL "-$work"
    break
  fi
done &
keeper=$!
trap 'kill -TERM "-$work"' INT TERM HUP

wait "$work"
code=$?
# A signal to this script also ends its wait.
while kill -0 "$work" 2>/dev/null; do wait "$work"; code=$?; done
kill -KILL "$keeper" 2>/dev/null
ask DELETE "/v1/locks/$id" 15 >/dev/null
exit "$code"
