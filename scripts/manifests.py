"""Reads the YAML of examples and workflows. Checks settings on which the safety of locks depends."""

import pathlib
import sys

import yaml

MAX_TTL = 60  # seconds: the library's default


def objects(path):
    return [thing for thing in yaml.safe_load_all(path.read_text()) if thing is not None]


def wrong_with(thing):
    """The mistakes in one Kubernetes object."""
    kind, spec = thing["kind"], thing.get("spec", {})
    if kind == "StatefulSet":
        if spec.get("minReadySeconds", 0) < MAX_TTL:
            yield f"minReadySeconds is below max_ttl, {MAX_TTL} s"
        if spec["replicas"] % 2 == 0:
            yield "an even number of nodes"
        words = spec["template"]["spec"]["containers"][0]["args"]
        if "noeviction" not in words:
            yield "nodes evict keys"
    if kind == "Job":
        container = spec["template"]["spec"]["containers"][0]
        if container["args"][:2] != ["init", "--yes"] or "ttlSecondsAfterFinished" in spec:
            yield "it does not call `quorumlock init --yes`, or may run a second time"
    if kind == "PodDisruptionBudget" and spec.get("maxUnavailable") != 1:
        yield "more than one node may be stopped at a time"
    if kind == "CronJob":
        command = spec["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["command"]
        if command[:2] != ["quorumlock", "run"] or "--" not in command:
            yield "it does not call `quorumlock run NAME -- CMD`"
    if kind == "Deployment":
        agent, pod = spec["template"]["spec"]["initContainers"][0], spec["template"]["spec"]
        # Kubernetes waits for the end of an init container that is no sidecar.
        if agent["args"][0] != "serve" or agent.get("restartPolicy") != "Always":
            yield "its agent is no sidecar that calls `quorumlock serve`"
        if any(agent["volumeMounts"] != program["volumeMounts"] for program in pod["containers"]):
            yield "the agent and the program share no folder"


def main():
    failed = False
    for path in sorted(pathlib.Path("examples/kubernetes").glob("*.yaml")):
        for thing in objects(path):
            for wrong in wrong_with(thing):
                print(f"{path}: {thing['kind']} {thing['metadata']['name']}: {wrong}", file=sys.stderr)
                failed = True
    for path in sorted(pathlib.Path(".github/workflows").glob("*.yml")):
        for workflow in objects(path):
            for name, job in workflow["jobs"].items():
                for step in job["steps"]:
                    if "run" in step and not step["run"].startswith("./scripts/"):
                        print(f"{path}: {name} runs {step['run']!r}: only scripts/ may be called", file=sys.stderr)
                        failed = True
    return failed


sys.exit(main())
