"""Specs of NodeUpgrades: two that use every field, and many that are wrong."""

from typing import Any

from nodeupgrade.api.json import Json
from tests.builders.places import PLACES
from tests.doubles.kube import merged

DIGEST, OTHER_DIGEST = "a" * 64, "b" * 64
MINIMAL: Json = {
    "version": "v1.33.13",
    "artifact": {"preStaged": {"linux-amd64": {"path": "/opt/kubelet", "sha256": DIGEST}}},
    "nodes": {"selector": {"matchLabels": {"pool": "web"}}},
}


def _selector(pool: str, operator: str) -> Json:
    return {
        "matchLabels": {"example.com/pool": pool},
        "matchExpressions": [{"key": "zone", "operator": operator, "values": [pool, "b"]}],
    }


def _deployments(namespace: str, version: str = "apps/v1", resource: str = "deployments", **which: Any) -> Json:
    expression = f"object.metadata.namespace == '{namespace}'"
    return {
        "apiVersion": version, "resource": resource, "namespace": namespace, "expression": expression, **which
    }  # fmt: skip


def _file_from(path: str, mode: str = "0644", **source: Any) -> Json:
    return {"path": path, "mode": mode, "sha256": DIGEST, **source}


FULL: Json = {
    "version": "v1.33.13",
    "artifact": {
        "image": {
            "ref": f"registry.example/kubelet@sha256:{DIGEST}",
            "path": "/kubelet",
            "pullSecret": "registry",
            "sha256": DIGEST,
        }
    },
    "files": [
        _file_from("/var/lib/kubelet/config.yaml", configMapKeyRef={"name": "kubelet", "key": "config.yaml"}),
        _file_from("/etc/kubernetes/ca.crt", secretKeyRef={"name": "ca", "key": "ca.crt"}),
        _file_from("/etc/default/kubelet", imagePath="/kubelet.env"),
    ],
    "nodes": {
        "selector": _selector("web", "In"),
        "names": ["node-1", "node-2"],
        "all": False,
        "exclude": {"selector": _selector("web", "In"), "names": ["node-3"]},
        "controlPlane": False,
        "cordoned": "Skip",
        "cordon": True,
        "notReady": "Skip",
        "membership": "Snapshot",
    },
    "allowDowngrade": False,
    "fromVersions": ["v1.30", "v1.31.2"],
    "skewPolicy": "Enforce",
    "hash": {"mode": "Rewrite", "alsoAccepted": []},
    "waves": [
        {
            "name": "canary",
            "selector": _selector("canary", "In"),
            "maxConcurrent": 1,
            "soak": "1h",
            "approval": "Auto",
            "failureThreshold": 1,
        },
        {"name": "half", "size": "50%"},
    ],
    "strategy": {
        "maxConcurrent": 5,
        "maxUnavailable": "10%",
        "topology": {"key": "topology.kubernetes.io/zone", "maxPerDomain": 2, "mode": "Spread"},
        "growth": {"type": "Linear", "factor": 2, "cap": 4},
        "nodeInterval": "10s",
        "failureThreshold": "5%",
        "onThreshold": "Pause",
    },
    "windows": [{"start": "0 22 * * 1-5", "duration": "6h", "timeZone": "Europe/Berlin"}],
    "blackouts": [{"from": "2026-12-24T00:00:00Z", "to": "2026-12-27T00:00:00+01:00"}],
    "hooks": {
        "before": [{"template": "set-noout", "timeout": "2m"}],
        "after": [{"template": "unset-noout", "timeout": "5m"}],
    },
    "healthChecks": [
        {
            "name": "errors",
            "prometheus": {"server": "default", "query": "errors", "expression": "value < 0.01"},
            "interval": "30s",
            "for": "1m",
            "timeout": "10s",
            "onFailure": "Pause",
        },
        {"name": "web", "objects": _deployments("web", selector=_selector("web", "In"))},
        {"name": "api", "objects": _deployments("web", name="api")},
    ],
    "kubelet": {
        "unit": "kubelet.service",
        "flagPolicy": "Refuse",
        "staticPods": "Pin",
        "removeFlags": ["--network-plugin"],
        "alsoRejects": ["RestartedAndNotReady"],
        "configurationDrift": "Refuse",
        "package": "Refuse",
    },
    "preflight": {"accept": []},
    "verify": {
        "settle": "60s",
        "kubeletDownBudget": "30s",
        "nodeReadyTimeout": "60s",
        "readinessGuard": "Auto",
        "shield": "Auto",
        "socketMounts": "Warn",
        "shieldHold": "10m",
    },
    "timeouts": {"podHold": "30m", "noProgress": "8h", "node": "15m", "wave": "12h", "total": "72h"},
    "overlapPolicy": "Queue",
    "deletionPolicy": "FinishInFlight",
    "action": "Run",
    "approvedWaves": ["canary"],
}
OTHER: Json = {
    "version": "v1.34.2",
    "artifact": {
        "image": {
            "ref": f"registry.example/kubelet@sha256:{OTHER_DIGEST}",
            "path": "/bin/kubelet",
            "pullSecret": "own",
            "sha256": OTHER_DIGEST,
        }
    },
    "files": [
        _file_from("/etc/kubernetes/a", "0600", configMapKeyRef={"name": "other", "key": "a"}),
        _file_from("/etc/kubernetes/b", "0600", secretKeyRef={"name": "other", "key": "b"}),
        _file_from("/etc/sysconfig/kubelet", "0600", imagePath="/other.env"),
    ],
    "nodes": {
        "selector": _selector("batch", "NotIn"),
        "names": ["node-1"],
        "all": True,
        "exclude": {"selector": _selector("batch", "NotIn"), "names": ["node-3", "node-4"]},
        "controlPlane": True,
        "cordoned": "Include",
        "cordon": False,
        "notReady": "Block",
        "membership": "Continuous",
    },
    "allowDowngrade": True,
    "fromVersions": ["v1.30"],
    "skewPolicy": "Warn",
    "hash": {"mode": "AssertUnchanged", "alsoAccepted": ["1.12", "1.17"]},
    "waves": [
        {
            "name": "first",
            "selector": _selector("first", "NotIn"),
            "maxConcurrent": "10%",
            "soak": "2h",
            "approval": "Manual",
            "failureThreshold": "2%",
        },
        {"name": "half", "size": 3},
    ],
    "strategy": {
        "maxConcurrent": "25%",
        "maxUnavailable": 7,
        "topology": {"key": "rack", "maxPerDomain": 3, "mode": "ZoneByZone"},
        "growth": {"type": "Exponential", "factor": 3, "cap": "50%"},
        "nodeInterval": "20s",
        "failureThreshold": 3,
        "onThreshold": "Abort",
    },
    "windows": [{"start": "0 1 * * 6", "duration": "2h", "timeZone": "UTC"}],
    "blackouts": [{"from": "2026-12-23T00:00:00Z", "to": "2026-12-28T00:00:00Z"}],
    "hooks": {
        "before": [{"template": "silence", "timeout": "1m"}],
        "after": [{"template": "unsilence", "timeout": "1m"}],
    },
    "healthChecks": [
        {
            "name": "errors",
            "prometheus": {"server": "other", "query": "up", "expression": "value == 1"},
            "interval": "5s",
            "for": "2m",
            "timeout": "5s",
            "onFailure": "Abort",
        },
        {"name": "web", "objects": _deployments("batch", "v1", "pods", selector=_selector("batch", "NotIn"))},
        {"name": "api", "objects": _deployments("batch", "v1", "pods", name="other")},
    ],
    "kubelet": {
        "unit": "k.service",
        "flagPolicy": "Strip",
        "staticPods": "Recreate",
        "removeFlags": ["--cni-bin-dir"],
        "alsoRejects": ["NotReady", "Restarted"],
        "configurationDrift": "Accept",
        "package": "Ignore",
    },
    "preflight": {"accept": ["placements_are_met", "pods_fit"]},
    "verify": {
        "settle": "5m",
        "kubeletDownBudget": "40s",
        "nodeReadyTimeout": "2m",
        "readinessGuard": "Require",
        "shield": "Require",
        "socketMounts": "Refuse",
        "shieldHold": "5m",
    },
    "timeouts": {"podHold": "40m", "noProgress": "9h", "node": "20m", "wave": "13h", "total": "73h"},
    "overlapPolicy": "Fail",
    "deletionPolicy": "RollbackInFlight",
    "action": "Pause",
    "approvedWaves": ["canary", "half"],
}


def spec(**changes: Any) -> Json:
    """The smallest spec, changed; artifact and nodes are replaced, all else is merged."""
    whole = {name: changes.pop(name) for name in ("artifact", "nodes") if name in changes}
    return {**merged(MINIMAL, changes), **whole}


def _wave(**fields: Any) -> Json:
    return {"name": "canary", "size": 1, **fields}


def _file(**fields: str) -> Json:
    return {"preStaged": {"linux-amd64": {"path": "/kubelet", "sha256": DIGEST, **fields}}}


def _selecting(*terms: Json, **labels: str) -> Json:
    return {"selector": {"matchLabels": labels, "matchExpressions": list(terms)}}


def _checking(what: Json | None = None, **fields: Any) -> Json:
    return spec(healthChecks=[{"name": "web", **(what or {"objects": _deployments("web")}), **fields}])


def _carrying(**fields: Any) -> Json:
    file = _file_from("/var/lib/kubelet/config.yaml", configMapKeyRef={"name": "kubelet", "key": "config.yaml"})
    return spec(files=[{**file, **fields}])


_QUERY: Json = {"query": "up", "expression": "value == 1"}
_WINDOW: Json = {"start": "0 22 * * *", "duration": "6h"}
_EXCLUDING: Json = {**MINIMAL["nodes"], "exclude": {"selector": {}}}
_TWO_SOURCES: Json = {"image": FULL["artifact"]["image"], **_file()}

INVALID: dict[str, Json] = {
    "version without v": spec(version="1.33.13"),
    "version of two parts": spec(version="v1.33"),
    "version is a number": spec(version=1.33),
    "no artifact": spec(artifact={}),
    "two artifacts": spec(artifact=_TWO_SOURCES),
    "image without digest": spec(artifact={"image": {"ref": "registry.example/kubelet:v1", "path": "/kubelet"}}),
    "relative path": spec(artifact=_file(path="kubelet")),
    **{name: spec(artifact=artifact) for name, artifact in PLACES.items()},
    "short digest": spec(artifact=_file(sha256="abc")),
    "no platform": spec(artifact={"platforms": {"Linux": {"url": "https://example/kubelet", "sha256": DIGEST}}}),
    "no nodes": spec(nodes={}),
    "empty selector": spec(nodes={"selector": {}}),
    "selector of nothing": spec(nodes=_selecting()),
    "all: false": spec(nodes={"all": False}),
    "In without values": spec(nodes=_selecting({"key": "zone", "operator": "In"})),
    "Exists with values": spec(nodes=_selecting({"key": "zone", "operator": "Exists", "values": ["a"]})),
    "label's key": spec(nodes=_selecting(**{"-pool": "web"})),
    "label's value": spec(nodes=_selecting(pool="web server")),
    "names twice": spec(nodes={"names": ["a", "a"]}),
    "excludes everything": spec(nodes=_EXCLUDING),
    "unknown membership": spec(nodes={"all": True, "membership": "Forever"}),
    "no era": spec(hash={"mode": "Guess"}),
    "hash of no kubelet": spec(hash={"alsoAccepted": ["1.4"]}),
    "hash of a patch release": spec(hash={"alsoAccepted": ["1.12", "v1.17.17"]}),
    "hash of a kubelet to come": spec(hash={"alsoAccepted": ["1.99"]}),
    "hash of one kubelet twice": spec(hash={"alsoAccepted": ["1.12", "1.12"]}),
    "condition that no kubelet rejects": spec(kubelet={"alsoRejects": ["Unhappy"]}),
    "hash of too many kubelets": spec(hash={"alsoAccepted": [f"1.{minor}" for minor in range(10, 19)]}),
    "unknown policy": spec(skewPolicy="Ignore"),
    "origin": spec(fromVersions=["1.30"]),
    "origins twice": spec(fromVersions=["v1.30", "v1.30"]),
    "wave without nodes": spec(waves=[{"name": "canary"}]),
    "wave with both": spec(waves=[_wave(selector={"matchLabels": {"a": "b"}})]),
    "wave of 0%": spec(waves=[_wave(size="0%")]),
    "wave of no node": spec(waves=[_wave(size=0)]),
    "wave's name": spec(waves=[_wave(name="Canary!")]),
    "wave called remainder": spec(waves=[_wave(name="remainder")]),
    "waves of one name": spec(waves=[_wave(), _wave(size=2)]),
    "too many waves": spec(waves=[_wave(name=f"wave-{i}") for i in range(21)]),
    "unknown approval": spec(waves=[_wave(approval="Ask")]),
    "wave's soak": spec(waves=[_wave(soak="1 hour")]),
    "no slots": spec(strategy={"maxConcurrent": 0}),
    "too many slots": spec(strategy={"maxConcurrent": 101}),
    "more than all": spec(strategy={"maxUnavailable": "101%"}),
    "half a node": spec(strategy={"maxConcurrent": 1.5}),
    "truth as a number": spec(strategy={"maxConcurrent": True}),
    "topology without key": spec(strategy={"topology": {"maxPerDomain": 1}}),
    "growth that does not grow": spec(strategy={"growth": {"type": "Exponential", "factor": 1}}),
    "negative interval": spec(strategy={"nodeInterval": "-1s"}),
    "no threshold": spec(strategy={"failureThreshold": 0}),
    "window of four fields": spec(windows=[{**_WINDOW, "start": "0 22 * *"}]),
    "window of no length": spec(windows=[{**_WINDOW, "duration": "0s"}]),
    "blackout upside down": spec(blackouts=[{"from": "2026-12-27T00:00:00Z", "to": "2026-12-24T00:00:00Z"}]),
    "blackout without zone": spec(blackouts=[{"from": "2026-12-24T00:00:00", "to": "2026-12-27T00:00:00"}]),
    "blackout on no day": spec(blackouts=[{"from": "2026-02-30T00:00:00Z", "to": "2026-12-27T00:00:00Z"}]),
    "check of nothing": spec(healthChecks=[{"name": "web"}]),
    "check of two things": _checking(prometheus=_QUERY),
    "checks of one name": spec(healthChecks=[{"name": "web", "prometheus": _QUERY}] * 2),
    "check of Secrets": _checking({"objects": _deployments("web", "v1", "secrets")}),
    "check of a log": _checking({"objects": _deployments("web", "v1", "pods/log")}),
    "check of a path": _checking({"objects": _deployments("web", name="../../secrets/a")}),
    "check of a name and a label": _checking(
        {"objects": _deployments("web", name="a", selector={"matchLabels": {"a": "b"}})}
    ),
    "check of another server": _checking({"prometheus": {**_QUERY, "server": "https://169.254.169.254"}}),
    "check too often": _checking(interval="4s", timeout="1s"),
    "check too seldom": _checking(interval="61m"),
    "check longer than its interval": _checking(timeout="31s"),
    "check without an end": _checking(timeout="0s"),
    "check that rolls back": _checking(onFailure="Rollback"),
    "file anywhere": _carrying(path="/etc/passwd"),
    "file above": _carrying(path="/etc/kubernetes/../passwd"),
    "state file": _carrying(path="/var/lib/kubelet/cpu_manager_state"),
    "static pod as a file": _carrying(path="/etc/kubernetes/manifests/etcd.yaml"),
    "file for all to write": _carrying(mode="0666"),
    "file of no source": spec(files=[_file_from("/etc/default/kubelet")]),
    "file of two sources": _carrying(secretKeyRef={"name": "a", "key": "b"}),
    "file from no image": spec(files=[_file_from("/etc/default/kubelet", imagePath="/a")]),
    "files of one path": spec(files=[_carrying()["files"][0]] * 2),
    "no service": spec(kubelet={"unit": "kubelet"}),
    "no name of a check": spec(preflight={"accept": ["Pods fit"]}),
    "no duration": spec(verify={"settle": "soon"}),
    "no time without a kubelet": spec(verify={"kubeletDownBudget": "0s"}),
    "shield held too long": spec(verify={"shieldHold": "25h"}),
    "no time at all": spec(timeouts={"node": "0m"}),
    "unknown action": spec(action="Levitate"),
    "unknown deletion policy": spec(deletionPolicy="RollBackEverything"),
    "strategy is a list": spec(strategy=[]),
}
MISUNDERSTOOD: dict[str, Json] = {
    "cron out of range": spec(windows=[{**_WINDOW, "start": "99 22 * * *"}]),
    "no such time zone": spec(windows=[{**_WINDOW, "timeZone": "Europe/Atlantis"}]),
    "time zone that leads elsewhere": spec(windows=[{**_WINDOW, "timeZone": "../../etc/passwd"}]),
    "cron on no day": spec(windows=[{**_WINDOW, "start": "0 0 31 2 *"}]),
}
"""Wrong in a way that no API server can see."""
