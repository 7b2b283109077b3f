# What the scripts share. Sourced, not run.

step() {
  local what=$1
  shift
  printf '== %s\n' "$what" >&2
  "$@"
}

need_cargo() {
  command -v cargo >/dev/null && return
  [ -f "$HOME/.cargo/env" ] && . "$HOME/.cargo/env"
  command -v cargo >/dev/null && return
  echo "cargo is missing: install Rust first (rustup, or your distribution's packages)" >&2
  exit 1
}

# need PROGRAM PACKAGE: installs a Debian package when its program is missing and we may; else says what to do.
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
