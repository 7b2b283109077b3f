# Functions for the docker scripts, which source this file.

# The name of images that scripts/docker-images builds because they cannot be pulled.
STAND_IN=quorumlock-stand-in

# Prints why containers cannot run here. Prints nothing if they can.
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

# Runs a container on a network of its own, as a test of the engine. A successful `docker info` is
# not enough: an engine that itself runs in a container may answer, and have no right to run
# containers.
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

# bundle FOLDER PROGRAM..: copies programs to FOLDER/bin. Copies the libraries that they load to
# FOLDER, under the libraries' usual paths.
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

# image FOLDER NAME OPTION..: makes an image from a folder. In the image, the files belong to
# `nobody`.
image() {
  local folder=$1 name=$2
  shift 2
  # Remove the image of an earlier run: otherwise it would remain, without a name.
  docker rmi "$name" >/dev/null 2>&1 || true
  tar -C "$folder" --owner=65534 --group=65534 --numeric-owner -c . | docker import "$@" - "$name" >/dev/null
}
