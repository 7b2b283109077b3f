# What the docker scripts share. Sourced, not run.

# Images that are built here where none can be pulled are under this name.
STAND_IN=quorumlock-stand-in

# Why no container can be run here; nothing where one can.
no_engine() {
  command -v docker >/dev/null || { echo "no Docker engine (docker is not installed)"; return; }
  local said
  said=$(docker info 2>&1 >/dev/null) || { echo "no Docker engine ($(tail -n 1 <<<"$said"))"; return; }
  compose version >/dev/null 2>&1 || { echo "no Docker Compose (neither docker compose nor docker-compose)"; return; }
  said=$(probe 2>&1) || echo "the Docker engine runs no container: $(grep -v '^$' <<<"$said" | tail -n 1)"
}

compose() {
  if docker compose version >/dev/null 2>&1; then docker compose "$@"; else docker-compose "$@"; fi
}

# Runs a container on a network of its own, which is more than `docker info` asks for: inside of
# another container an engine may answer and have no right to do it.
probe() (
  set -e
  name=$STAND_IN-probe-$$
  folder=$(mktemp -d)
  trap 'docker network rm "$name" >/dev/null 2>&1; docker rmi "$name" >/dev/null 2>&1; rm -rf "$folder"' EXIT
  bundle "$folder" "$(type -P true)"
  image "$folder" "$name" --change 'CMD ["/bin/true"]'
  docker network create --internal "$name" >/dev/null
  timeout 60 docker run --rm --network "$name" --memory 64m "$name"
)

# bundle FOLDER PROGRAM..: copies programs to FOLDER/bin, and the libraries that they load to where
# they are here.
bundle() {
  local folder=$1 program library
  shift
  for program in "$@"; do
    install -D "$program" "$folder/bin/$(basename "$program")"
    for library in $(ldd "$program" | grep -o '/[^ ]*'); do
      install -D "$library" "$folder$library"
    done
  done
}

# image FOLDER NAME OPTION..: makes an image of a folder, which belongs to nobody there.
image() {
  local folder=$1 name=$2
  shift 2
  # The one before would stay without a name.
  docker rmi "$name" >/dev/null 2>&1 || true
  tar -C "$folder" --owner=65534 --group=65534 --numeric-owner -c . | docker import "$@" - "$name" >/dev/null
}
