#!/bin/sh
# Runs a command under a lock of the agent, and kills the command if the lock cannot be kept:
# ./lock.sh NAME COMMAND.. QUORUMLOCK_AGENT is the agent's socket. The script needs curl and Linux. It
# only shows how to call the agent: for real jobs, use `quorumlock run`.
set -u
name=$1
shift

ask() { # METHOD PATH SECONDS [BODY]: prints the answer, a JSON object
  curl --silent --show-error --unix-socket "${QUORUMLOCK_AGENT:-/run/quorumlock/agent.sock}" --max-time "$3" \
    --request "$1" --header 'content-type: application/json' --data "${4:-}" "http://agent$2"
}

field() { # NAME ANSWER: prints the value of a field of the answer (not of the object "tokens" within the answer)
  printf '%s' "$2" | sed -En "s/(^\{|.*,) *\"$1\": *\"?([0-9a-f-]*).*/\2/p"
}

now_ms() { # prints the time of a clock that runs on while the machine is suspended
  read -r uptime _ </proc/uptime
  echo "${uptime%.*}${uptime#*.}0"
}

# Each curl has a connection of its own, so the lock must not end with a connection ("connection": false). The agent
# ends the lock if nobody keeps it for keep_ms. The deadline counts from the moment before the request.
sent=$(now_ms)
held=$(ask POST /v1/locks 75 "{\"names\": [\"$name\"], \"timeout_ms\": 60000, \"keep_ms\": 30000, \"connection\": false}")
id=$(field id "$held")
[ -n "$id" ] || { echo "no lock: $held" >&2; exit 75; }
deadline=$((sent + $(field until_ms "$held")))

# setsid gives the command a process group of its own, so that the command and its children can be killed together.
TOKEN=$(field token "$held") setsid "$@" &
work=$!

# A signal to this script's process group also reaches the keeper (the loop below). The keeper must ignore the signal:
# the work may go on, and must be killed at the deadline.
trap '' INT TERM HUP
while sleep 1 && kill -0 "$work" 2>/dev/null; do
  if [ $((deadline - $(now_ms))) -lt 20000 ]; then
    sent=$(now_ms)
    kept=$(ask POST "/v1/locks/$id/keep" 2)
    until_ms=$(field until_ms "$kept")
    [ -z "$until_ms" ] || deadline=$((sent + until_ms))
    # With the answers 410 and 404, the lock has ended before its deadline. After other failures, try again.
    case $kept in *'"error":"lost"'* | *'"error":"unknown"'*) deadline=0 ;; esac
  fi
  # The next check may come only 3 s later (1 s of sleep and 2 s of curl), so kill the command 4 s early.
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
# A signal to this script also ends `wait`, so wait again while the command runs.
while kill -0 "$work" 2>/dev/null; do wait "$work"; code=$?; done
kill -KILL "$keeper" 2>/dev/null
ask DELETE "/v1/locks/$id" 15 >/dev/null
exit "$code"
