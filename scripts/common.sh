# Sourced by the other scripts: where the project is, how many jobs, and parts that are timed and listed.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

# The compilers need about 1 GiB each; SHARDWISE_JOBS overrides.
job_count() {
  if [ -n "${SHARDWISE_JOBS:-}" ]; then echo "$SHARDWISE_JOBS"; return; fi
  local by_memory by_cores
  by_cores=$(nproc)
  by_memory=$(awk '/MemAvailable/ {print int($2 / 1048576)}' /proc/meminfo)
  [ "$by_memory" -lt 1 ] && by_memory=1
  echo $((by_cores < by_memory ? by_cores : by_memory))
}
jobs=$(job_count)
# Worktrees and clones share cached objects: paths under the project are hashed relative to it.
export CCACHE_BASEDIR="${CCACHE_BASEDIR:-$root}"

part_names=() part_states=() part_times=() part_notes=()
failed_parts=0

record() {  # NAME STATE SECONDS NOTE
  part_names+=("$1") part_states+=("$2") part_times+=("$3") part_notes+=("$4")
}

# part NAME COMMAND...: runs it, times it, remembers whether it passed. Later parts run either way; the caller asks
# with `if part ...` where one builds on another. 77 is the usual exit code of a skip; its last line is the reason.
part() {
  local name=$1 start=$SECONDS log status=0
  shift
  log=$(mktemp)
  echo
  echo "== $name: $*"
  set +e
  ( "$@" ) 2>&1 | tee "$log"
  status=${PIPESTATUS[0]}
  set -e
  local took=$((SECONDS - start))
  if [ "$status" -eq 0 ]; then
    record "$name" pass "$took" ""
  elif [ "$status" -eq 77 ]; then
    record "$name" skip "$took" "$(tail -n 1 "$log")"
  else
    record "$name" FAIL "$took" "exit code $status"
    failed_parts=$((failed_parts + 1))
  fi
  rm -f "$log"
  return "$status"
}

skip() {  # NAME REASON
  echo
  echo "== $1: skipped, $2"
  record "$1" skip 0 "$2"
}

print_parts() {
  echo
  printf '%-31s %-6s %6s  %s\n' part state time note
  local i
  for i in "${!part_names[@]}"; do
    printf '%-31s %-6s %5ds  %s\n' "${part_names[$i]}" "${part_states[$i]}" "${part_times[$i]}" "${part_notes[$i]}"
  done
}
