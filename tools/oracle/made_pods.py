"""Generate random pods: API pods from a release's own types, manifests within what validation accepts."""

from collections.abc import Mapping
from random import Random
from typing import Any

from tools.oracle.asking import GoField

Json = dict[str, Any]
Types = Mapping[str, tuple[GoField, ...]]

QUANTITIES = (
    "1", "2", "100m", "250m", "0.1", "0.5", "1.5", "1.0005", "1e3", "2E3", "64Mi", "100Mi", "128Mi", "1Gi", "1.5Gi",
    "0.5Gi", "0.0001Ki", "2.25Ti", "1Pi", "3Pi", "1.7Pi", "12345678901234567890", "2500M", "1000k", "128974848", "0.3G",
)  # fmt: skip
_TEXTS = ("a", "", "two words", "--flag=<a&b>", 'quo"te\\', "tab\there", "línea\nnueva", "日本", "\u2028", "{}")
_IMAGES = ("nginx", "nginx:1", "nginx:latest", "r.example:5000/a/b", "r.example:5000/a/b:2", "a@sha256:" + "0a" * 32)


def api_pod(random: Random, types: Types, number: int) -> Json:
    """Return a pod whose containers have any fields of the release, however odd."""
    containers = [
        {**_struct(random, types, "Container", 0), "name": f"c{each}"} for each in range(random.randint(1, 3))
    ]
    return {"metadata": {"name": f"p{number}"}, "spec": {"containers": containers}}


def _struct(random: Random, types: Types, name: str, depth: int) -> Json:
    made: Json = {}
    for each in types[name]:
        if not each.key:
            made |= _struct(random, types, each.type, depth)
        elif random.random() < (0.35 if depth < 3 else 0.2):
            made[each.key] = _value(random, types, each.type, depth + 1)
    return made


def _value(random: Random, types: Types, type_: str, depth: int) -> Any:
    base = type_.lstrip("*[]")
    if type_.startswith("[]"):
        return [_value(random, types, base, depth) for _ in range(random.randint(0, 2))]
    if base in types:
        return _struct(random, types, base, depth)
    match base:
        case "bool":
            return random.random() < 0.5
        case "int32" | "int64":
            return random.choice((0, 1, 10, 8080, 2**31 - 1))
        case "IntOrString":
            return random.choice((0, 80, "http"))
        case "Quantity":
            return random.choice(("0", "1", "1m", "1Mi"))
        case "ResourceList":
            return {
                key: _canonical(random) for key in random.sample(("cpu", "memory", "x.example/y"), random.randint(0, 3))
            }
        case _:
            return random.choice(_TEXTS)


def _canonical(random: Random) -> str:
    return random.choice(("1", "100m", "1500m", "64Mi", "100Mi", "1Gi", "8Gi", "1Pi", "2500M", "1e3", "0"))


def manifest(random: Random, number: int) -> Json:
    """Return a static pod that most releases accept."""
    host_network = random.random() < 0.4
    spec: Json = {"containers": [_container(random, f"c{n}", host_network) for n in range(random.randint(1, 2))]}
    spec["volumes"] = [{"name": f"v{n}", "emptyDir": {}} for n in range(3)]
    if host_network:
        spec["hostNetwork"] = True
    if random.random() < 0.3:
        spec["initContainers"] = [_container(random, "i0", host_network)]
        if random.random() < 0.3:
            spec["initContainers"][0]["restartPolicy"] = "Always"
        else:
            for key in ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle"):
                spec["initContainers"][0].pop(key, None)
    if random.random() < 0.1:
        spec["os"] = {"name": "linux"}
        spec["containers"][0].setdefault("lifecycle", {})["stopSignal"] = "SIGUSR1"
    if random.random() < 0.15:
        spec["resources"] = random.choice(({}, {"limits": {"cpu": "64", "memory": "8Pi"}}, {"requests": {"cpu": "64"}}))
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{number}"}, "spec": spec}


def _container(random: Random, name: str, host_network: bool) -> Json:
    def maybe(share: float, value: Any) -> Json:
        return value if random.random() < share else {}

    mounts = [_mount(random, n) for n in range(random.randint(1, 3))]
    made: Json = {"name": name, "image": random.choice(_IMAGES)}
    made |= maybe(0.3, {"command": random.choice(([], ["run"], None))})
    made |= maybe(0.4, {"args": [random.choice(_TEXTS) for _ in range(random.randint(0, 3))]})
    made |= maybe(0.2, {"workingDir": "/w"}) | maybe(0.1, {"stdin": True, "tty": True})
    made |= maybe(0.2, {"imagePullPolicy": "Never"}) | maybe(0.2, {"terminationMessagePath": "/t"})
    made |= maybe(0.2, {"terminationMessagePolicy": "FallbackToLogsOnError"})
    made |= maybe(0.4, {"volumeMounts": mounts}) | maybe(0.7, {"resources": _resources(random)})
    made |= maybe(0.4, {"ports": _ports(random, name, host_network)}) | maybe(0.4, {"env": _env(random)})
    made |= maybe(0.3, {"securityContext": _security(random)})
    for key, share in (("livenessProbe", 0.3), ("readinessProbe", 0.2), ("startupProbe", 0.1)):
        made |= maybe(share, {key: _probe(random, liveness=key != "readinessProbe")})
    made |= maybe(0.2, {"lifecycle": {random.choice(("preStop", "postStart")): _handler(random)}})
    policy = {"resourceName": random.choice(("cpu", "memory")), "restartPolicy": "NotRequired"}
    return made | maybe(0.15, {"resizePolicy": random.choice(([], [policy]))})


def _mount(random: Random, number: int) -> Json:
    made: Json = {"name": f"v{number}", "mountPath": f"/m{number}"}
    extras = (
        {"readOnly": True},
        {"subPath": "s"},
        {"mountPropagation": "HostToContainer"},
        {"recursiveReadOnly": "Disabled"},
    )
    return made | random.choice(({}, *extras))


def _resources(random: Random) -> Json:
    made: Json = {}
    for name in random.sample(("cpu", "memory", "ephemeral-storage"), random.randint(0, 3)):
        text: Any = random.choice((*QUANTITIES, 1, 2))
        for key in random.choice((["limits"], ["requests"], ["limits", "requests"])):
            made.setdefault(key, {})[name] = text
    return made or random.choice(({}, {"limits": {}}, {"requests": {}}, {"limits": None}))


def _ports(random: Random, name: str, host_network: bool) -> list[Json]:
    made = []
    for n in range(random.randint(0, 2)):
        number = 1000 + n + (100 if name == "c1" else 200 if name == "i0" else 0)
        port: Json = {"containerPort": number}
        port |= random.choice(({}, {"protocol": "UDP"}, {"name": f"p{n}{name}"}, {"hostIP": "127.0.0.1"}))
        made.append(port | ({"hostPort": number} if host_network and random.random() < 0.3 else {}))
    return made


def _env(random: Random) -> list[Json]:
    sources: tuple[Json, ...] = (
        {"value": random.choice(_TEXTS)},
        {},
        {"valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"valueFrom": {"fieldRef": {"fieldPath": "status.podIP", "apiVersion": "v1"}}},
        {"valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
        {"valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": random.choice(("0", "1", "1Mi"))}}},
    )
    return [{"name": f"E{n}", **random.choice(sources)} for n in range(random.randint(0, 3))]


def _handler(random: Random) -> Json:
    http: Json = {"port": random.choice((80, "http"))}
    http |= random.choice(({}, {"path": "/x"}, {"scheme": "HTTPS"}, {"httpHeaders": [{"name": "H", "value": "v"}]}))
    return random.choice(({"exec": {"command": ["true"]}}, {"httpGet": http}, {"tcpSocket": {"port": 80}}))


def _probe(random: Random, *, liveness: bool) -> Json:
    made = _handler(random)
    made |= random.choice(
        ({}, {"initialDelaySeconds": 5}, {"periodSeconds": 3}, {"failureThreshold": 8}, {"timeoutSeconds": 2})
    )
    if random.random() < 0.1:
        made = {"grpc": {"port": 1, **random.choice(({}, {"service": "s"}))}}
    return made | ({"terminationGracePeriodSeconds": 7} if liveness and random.random() < 0.1 else {})


def _security(random: Random) -> Json:
    return random.choice((
        {}, {"privileged": False}, {"runAsUser": 1000, "runAsGroup": 5, "runAsNonRoot": True}, {"procMount": "Default"},
        {"capabilities": {"add": ["NET_ADMIN"], "drop": []}}, {"capabilities": {}}, {"seLinuxOptions": {"level": "s0"}},
        {"readOnlyRootFilesystem": True}, {"allowPrivilegeEscalation": False},
        {"appArmorProfile": {"type": "Unconfined"}}, {"seccompProfile": {"type": "RuntimeDefault"}},
    ))  # fmt: skip
