# Functions for the other scripts, which source this file.

# step WHAT COMMAND..: runs the command. Prints WHAT, the command (unless it is a function), and how long it took. If
# the command fails, the script ends, unless the caller checks the result. If STEPS_LOG names a file, adds a line with
# the seconds to this file.
step() {
  local what=$1 began=$SECONDS code
  shift
  printf '== %s\n' "$what" >&2
  case "$(type -t "$1")" in
    file) printf '   %s\n' "$(printf '%q ' "$@")" >&2 ;;
  esac
  "$@"
  # After a failure, the script gets here only if the caller checks the result: otherwise `set -e` has ended it.
  code=$?
  printf '   %s: %d s\n' "$what" $((SECONDS - began)) >&2
  [ -z "${STEPS_LOG:-}" ] || printf '%5d s  %s\n' $((SECONDS - began)) "$what" >>"$STEPS_LOG"
  return $code
}

need_cargo() {
  command -v cargo >/dev/null && return
  [ -f "$HOME/.cargo/env" ] && . "$HOME/.cargo/env"
  command -v cargo >/dev/null && return
  echo "cargo is missing: install Rust first (rustup, or your distribution's packages)" >&2
  exit 1
}

# need PROGRAM PACKAGE: installs a Debian package if its program is missing. If that is not possible, says what to do,
# and ends the script.
need() {
  command -v "$1" >/dev/null && return
  if ! command -v apt-get >/dev/null; then
    echo "$1 is missing: install it with your package manager (Debian: apt-get install $2)" >&2
    exit 1
  fi
  local sudo=()
  if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null || ! sudo -n true 2>/dev/null; then
      echo "$1 is missing, and installing it needs root: sudo apt-get install $2" >&2
      exit 1
    fi
    sudo=(sudo)
  fi
  echo "installing $2" >&2
  install_package "$2" >&2 || {
    echo "$1 is missing and could not be installed: apt-get install $2" >&2
    exit 1
  }
}

install_package() {
  local get=("${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq)
  "${get[@]}" install -y --no-install-recommends "$1" || { "${get[@]}" update && "${get[@]}" install -y --no-install-recommends "$1"; }
}

# unpack PROGRAM PACKAGE: unpacks a Debian package into target/tools, and adds its program to PATH. Does not install the
# package, because some packages start a service when they are installed. Needs root only if apt has no lists of
# packages.
unpack() {
  command -v "$1" >/dev/null && return
  local tools=${CARGO_TARGET_DIR:-target}/tools
  mkdir -p "$tools"
  tools=$(cd "$tools" && pwd)
  [ -x "$tools/usr/bin/$1" ] || unpack_package "$2" "$tools" >&2 || {
    echo "$1 is missing and could not be fetched; install it (Debian: apt-get install $2)" >&2
    exit 1
  }
  PATH=$PATH:$tools/usr/bin
}

unpack_package() (
  command -v apt-get >/dev/null && command -v dpkg >/dev/null || return 1
  echo "fetching $1" >&2
  cd "$2"
  rm -f ./"$1"_*.deb
  apt-get -qq download "$1" || { [ "$(id -u)" = 0 ] && apt-get -qq update && apt-get -qq download "$1"; } || return 1
  dpkg -x ./"$1"_*.deb . && rm -f ./"$1"_*.deb
)

# unpack_postgres: unpacks PostgreSQL and the libraries that it needs and this machine lacks. Does not add its programs
# to PATH: tests find them by themselves.
unpack_postgres() {
  command -v initdb >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null && return
  local tools=${CARGO_TARGET_DIR:-target}/tools package
  mkdir -p "$tools"
  tools=$(cd "$tools" && pwd)
  # Tests look for PostgreSQL in this folder.
  compgen -G "$tools/usr/lib/postgresql/*/bin/initdb" >/dev/null && return
  for package in $(packages_for postgresql); do
    unpack_package "$package" "$tools" >&2 || true
  done
  compgen -G "$tools/usr/lib/postgresql/*/bin/initdb" >/dev/null || {
    echo "PostgreSQL is missing and could not be fetched; install it (Debian: apt-get install postgresql), or have its initdb in PATH" >&2
    exit 1
  }
}

# packages_for PACKAGE: prints the names of this package and of the packages that it depends on, except those that are
# installed.
packages_for() {
  command -v apt-get >/dev/null || return 0
  local list=(apt-get -qq install --print-uris --no-install-recommends "$1")
  { "${list[@]}" 2>/dev/null || { [ "$(id -u)" = 0 ] && apt-get -qq update >&2 && "${list[@]}"; } || true; } | sed -n "s/^'[^']*' \([^_]*\)_.*/\1/p"
}

# test_program TARGET: builds a test target in release mode, and prints the path of its program.
test_program() {
  cargo test --locked --quiet --release --test "$1" --no-run >&2
  cargo test --locked --release --test "$1" --no-run --message-format=json 2>/dev/null |
    jq -r --arg target "$1" 'select(.executable != null and .target.name == $target) | .executable' | tail -n 1
}

# test_programs ARGUMENT..: builds test targets like `cargo test`, and prints the path of each program on a line.
test_programs() {
  cargo test --locked --quiet --no-run "$@" >&2 || return
  cargo test --locked --no-run --message-format=json "$@" 2>/dev/null |
    jq -r 'select(.executable != null and .profile.test) | .executable'
}

# another_package FOLDER: renames the package in a copy of the tree, so that the copy and the tree can share a target
# folder. With one name for both, Cargo would use the copy's build results for the tree.
another_package() {
  sed -i -e '0,/^name = "quorumlock"$/s//name = "quorumlock-copy"/' \
    -e 's/^quorumlock = { path = "\."/quorumlock = { package = "quorumlock-copy", path = "."/' "$1/Cargo.toml"
  sed -i -e 's/^name = "quorumlock"$/name = "quorumlock-copy"/' -e 's/^ "quorumlock",$/ "quorumlock-copy",/' "$1/Cargo.lock"
}

# lab_program: builds the program of benches/lab, and prints its path. Uses the tree's target folder, to compile few
# dependencies again.
lab_program() {
  local target=${CARGO_TARGET_DIR:-target}
  cargo build --locked --quiet --release --manifest-path benches/lab/Cargo.toml --target-dir "$target" >&2
  echo "$target/release/quorumlock-lab"
}

# run_tests [STARTER..]: runs the test programs that standard input lists: each line has a program and its arguments.
# Runs four programs at a time, because most tests wait. Prints the output of each program that fails, and one line
# about each program that passes. If SILENT is set, prints nothing about programs that pass, and SILENT's text in front
# of each failure. Fails if a program fails, or if there is no program.
run_tests() {
  local programs
  programs=$(cat)
  [ -n "$programs" ] || { echo "there are no test programs" >&2; return 1; }
  RUST_TEST_THREADS=12 xargs -P 4 -d '\n' -I '{}' bash -c 'run_test "$@"' run_test '{}' "$@" <<<"$programs"
}

# run_test COMMAND [STARTER..]: runs one test program, with STARTER in front of COMMAND.
run_test() {
  local command name output began=$SECONDS failed=0
  read -ra command <<<"$1"
  shift
  name=$(basename "${command[0]}")
  # Use a file and no pipe: a process that a failed test leaves behind would keep the pipe open.
  output=$(mktemp)
  "$@" "${command[@]}" --quiet >"$output" 2>&1 </dev/null || failed=1
  if [ $failed = 1 ]; then
    printf '%s%s failed\n%s\n' "${SILENT:-}" "${command[*]}" "$(<"$output")" >&2
  elif [ -z "${SILENT:-}" ]; then
    printf '   %-28s %4d s  %s\n' "${name%-*}" $((SECONDS - began)) "$(sed -n 's/^test result: //p' "$output" | tail -n 1)" >&2
  fi
  rm "$output"
  return $failed
}
# Export the function, because the shells that xargs starts call it.
export -f run_test
