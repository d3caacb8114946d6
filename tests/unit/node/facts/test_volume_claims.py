"""Tests how PersistentVolumeClaims are read with the kubelet's credentials."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from nodeupgrade.api.values import PodUid
from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.kubelet.layout import read_layout
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.node.checks.facts import NodeFacts, VolumeClaim
from nodeupgrade.node.facts.surroundings import look_at_surroundings
from nodeupgrade.node.host.clock import Clock
from nodeupgrade.node.running_kubelet.kubelet import Answer
from tests.builders.sound import SPEC, WEB, instance, inventory, pod, readiness
from tests.builders.surrounded_host import FILES, KUBECONFIG, Host, Server, known

V = KubeletVersion.parse


CLAIMING = [
    {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
    {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}},
    {"name": "idle", "persistentVolumeClaim": {"claimName": "idle"}},
]
USING = {**SPEC, "volumeMounts": [{"name": "data"}, {"name": "config"}], "volumeDevices": [{"name": "scratch"}]}
TARGET = V("v1.36.3")
CLAIMS, VOLUMES = "/api/v1/namespaces/default/persistentvolumeclaims", "/api/v1/persistentvolumes"
DRIVERS = "/apis/storage.k8s.io/v1/csidrivers"
SELINUX = {**FILES, "/sys/fs/selinux/enforce": b"0"}


def ok(**body: Any) -> Answer:
    return Answer(200, json.dumps(body))


def claim(uid: str = "u-1", volume: str = "pvc-1", phase: str = "Bound", **metadata: Any) -> Answer:
    return ok(metadata={"uid": uid, **metadata}, spec={"volumeName": volume}, status={"phase": phase})


def persistent(uid: str = "u-1", **spec: Any) -> Answer:
    return ok(spec={"claimRef": {"uid": uid}, "accessModes": ["ReadWriteOncePod"], **spec})


def claiming(layout: Any = None, *, count: int = 1, name: str = "data") -> NodeFacts:
    """Pods with claims of which one is for nobody."""
    words = read_layout((f"--kubeconfig={KUBECONFIG}",)) if layout is None else layout
    listed = [{**CLAIMING[0], "persistentVolumeClaim": {"claimName": name}}, *CLAIMING[1:]]
    refs = [replace(WEB, uid=PodUid(f"{WEB.uid}-{i}")) for i in range(count)]
    return known(
        target=TARGET,
        pods=tuple(parse_pod(pod(ref, volumes=listed, containers=[USING])) for ref in refs),
        inventory=inventory(*(instance(None, ref=ref) for ref in refs)),
        readiness=readiness(layout=words),
    )


def found(*answers: Answer, files: Mapping[str, bytes] = FILES, **given: Any) -> tuple[list[VolumeClaim], list[str]]:
    server = Server(*answers)
    claims = look_at_surroundings(Host(server, files), claiming(**given)).claims
    return [each for each in claims if each.volume == "data"], server.asked


def test_claims_are_read_with_their_volumes_for_every_kubelet() -> None:
    server = Server(claim(), persistent(), claim(volume="pvc-2"), persistent())

    around = look_at_surroundings(Host(server), claiming())
    assert around.claims == (
        VolumeClaim(pod="default/web", name="data", volume="data", access_modes=("ReadWriteOncePod",)),
        VolumeClaim(pod="default/web", name="web-scratch", volume="scratch", access_modes=("ReadWriteOncePod",)),
    )
    assert server.asked == [
        f"{CLAIMS}/data", f"{VOLUMES}/pvc-1", f"{CLAIMS}/web-scratch", f"{VOLUMES}/pvc-2",
    ]  # fmt: skip


DELETED = {"deletionTimestamp": "2026-11-21T05:45:28Z"}
PROTECTED: dict[str, Any] = {**DELETED, "finalizers": ["kubernetes.io/pvc-protection"]}


@pytest.mark.parametrize(
    ("answers", "unfit"),
    [
        ([Answer(404, "")], "cannot be read by the kubelet (HTTP 404)"),
        ([Answer(403, "")], "cannot be read by the kubelet (HTTP 403)"),
        ([claim(phase="Lost")], "is Lost, not Bound"),
        ([claim(volume="")], "names no PersistentVolume"),
        ([claim(**DELETED)], "without the finalizer kubernetes.io/pvc-protection"),
        ([claim(), Answer(403, "")], "names the PersistentVolume pvc-1, which cannot be read by the kubelet"),
        ([claim(), persistent("u-2")], "names the PersistentVolume pvc-1, which is not bound to it"),
        ([claim(), ok(spec={})], "names the PersistentVolume pvc-1, which is not bound to it"),
        ([claim(**PROTECTED), persistent()], ""),
    ],
)
def test_a_claim_that_no_kubelet_takes_for_bound(answers: list[Answer], unfit: str) -> None:
    (told,), _ = found(*answers)

    assert unfit in told.unfit
    assert bool(unfit) is bool(told.unfit)
    assert told.passes is ("cannot be read" in unfit)
    assert told.deleting is ("finalizer" in unfit or not unfit)
    assert told.unread == ""


@pytest.mark.parametrize(
    ("answers", "layout", "unread", "asked"),
    [
        ([], None, "nobody answers", 1),
        ([Answer(500, "")], None, "HTTP 500", 1),
        ([claim(), Answer(429, "")], None, "HTTP 429", 2),
        ([Answer(200, "[]")], None, "the answer is not understood", 1),
        ([claim(finalizers=7, deletionTimestamp="")], None, "the answer is not understood", 1),
        ([claim(), ok(spec={"claimRef": "u-1"})], None, "the answer is not understood", 2),
        ([], read_layout(()), "it has no kubeconfig", 0),
    ],
)
def test_a_claim_that_cannot_be_read_is_told(answers: list[Answer], layout: Any, unread: str, asked: int) -> None:
    (told,), paths = found(*answers, layout=layout)

    assert (told.unread, told.unfit, told.passes) == (unread, "", layout is None)
    assert len([path for path in paths if "scratch" not in path]) == asked


def test_the_first_without_an_answer_is_the_last_that_is_asked_for() -> None:
    server = Server()

    claims = look_at_surroundings(Host(server), claiming()).claims
    assert [(each.unread, each.passes) for each in claims] == [("nobody answers", True)] * 2
    assert len(server.asked) == 1


class Slow(Server):
    clock: Clock

    def read(self, path: str) -> Answer:
        self.clock.sleep(31.0)
        return super().read(path)


def test_a_server_that_takes_too_long_is_left_alone() -> None:
    server = Slow(claim(), persistent())
    host = Host(server)
    server.clock = host.clock

    first, second = look_at_surroundings(host, claiming()).claims
    assert (first.unread, second.unread, second.passes) == ("", "the API server answers too slowly", False)


def test_without_credentials_nobody_is_asked() -> None:
    claims = look_at_surroundings(Host(None), claiming()).claims

    assert [(each.unread, each.passes) for each in claims] == [("no credentials", False)] * 2


def test_a_claim_that_pods_share_is_read_once() -> None:
    told, asked = found(claim(), persistent(), claim(), count=3)

    assert [each.unfit for each in told] == [""] * 3
    assert asked == [f"{CLAIMS}/data", f"{VOLUMES}/pvc-1", f"{CLAIMS}/web-scratch"]


def test_the_name_of_a_claim_is_one_word_of_a_path() -> None:
    _, asked = found(Answer(404, ""), name="../../secrets?x=%2e")

    assert asked[0] == f"{CLAIMS}/..%2F..%2Fsecrets%3Fx%3D%252e"


CSI: dict[str, Any] = {"csi": {"driver": "ebs.csi.aws.com"}}


@pytest.mark.parametrize(
    ("source", "driver", "takes", "asked"),
    [
        (CSI, ok(spec={"seLinuxMount": True}), True, True),
        (CSI, ok(spec={}), False, True),
        (CSI, Answer(404, ""), False, True),
        (CSI, Answer(403, ""), True, True),
        ({"awsElasticBlockStore": {}}, ok(spec={}), False, True),
        ({"awsElasticBlockStore": {}}, ok(spec={"seLinuxMount": True}), True, True),
        ({"nfs": {}}, Answer(404, ""), False, False),
        ({"iscsi": {}}, Answer(404, ""), True, False),
    ],
)
def test_under_selinux_it_is_found_out_which_volumes_take_a_label(
    source: dict[str, Any], driver: Answer, takes: bool, asked: bool
) -> None:
    (told,), paths = found(claim(), persistent(**source), driver, files=SELINUX)

    assert told.takes_label is takes
    assert (f"{DRIVERS}/ebs.csi.aws.com" in paths) is asked


def test_without_selinux_no_driver_is_asked_for() -> None:
    assert DRIVERS not in " ".join(found(claim(), persistent(**CSI))[1])


NOTED = f"/var/lib/kubelet/pods/{WEB.uid}-0/volumes/kubernetes.io~csi/pvc-1/vol_data.json"


@pytest.mark.parametrize(
    ("noted", "label"),
    [
        (
            b'{"driverName": "ebs.csi.aws.com", "seLinuxMountContext": "system_u:object_r:c:s0:c1,c2"}',
            "system_u:object_r:c:s0:c1,c2",
        ),
        (b'{"driverName": "ebs.csi.aws.com"}', ""),
        (b'{"seLinuxMountContext": 7}', None),
        (b"[]", None),
        (b"{", None),
        (None, None),
    ],
)
def test_under_selinux_the_label_is_read_with_which_a_driver_has_mounted_a_volume(
    noted: bytes | None, label: str | None
) -> None:
    files = SELINUX if noted is None else {**SELINUX, NOTED: noted}
    (told,), _ = found(claim(), persistent(**CSI), ok(spec={}), files=files)

    assert told.mounted_label == label
    assert found(claim(), persistent(**CSI), files={**FILES, NOTED: noted or b""})[0][0].mounted_label is None


def test_a_label_says_nothing_as_long_as_nobody_says_whether_the_driver_takes_any() -> None:
    (told,), _ = found(claim(), persistent(**CSI), Answer(403, ""), files={**SELINUX, NOTED: b"{}"})

    assert (told.takes_label, told.mounted_label) == (True, None)


@pytest.mark.parametrize("volume", ["..", "a/b", "a\0b", "a" * 300])
def test_no_name_of_a_volume_is_another_path(volume: str) -> None:
    (told,), _ = found(claim(volume=volume), persistent(**CSI), ok(spec={}), files={**SELINUX, NOTED: b"{}"})

    assert (told.unread, told.mounted_label) == ("", None)
