"""Tests what is read from the kubelet's flags and configuration files."""

from pathlib import PurePosixPath

import pytest

from nodeupgrade.kubelet.layout import (
    READ_AT_START,
    KubeletLayout,
    is_drop_in,
    path_of,
    read_layout,
    sockets_beside,
    state_name,
    state_place,
)

CONFIG = b"""\
kind: KubeletConfiguration
containerRuntimeEndpoint: unix:///run/file.sock
healthzBindAddress: 10.0.0.1
healthzPort: 1234
staticPodPath: /etc/manifests
"""


def layout(words: str = "", *configs: bytes) -> KubeletLayout:
    return read_layout(tuple(words.split()), *configs)


def test_without_anything_said_it_is_as_kubelets_have_it() -> None:
    assert layout() == KubeletLayout(
        endpoint="/run/containerd/containerd.sock",
        healthz_url="http://127.0.0.1:10248/healthz",
        manifests=None,
    )


def test_the_file_is_read() -> None:
    found = layout("", CONFIG)

    assert (found.endpoint, found.healthz_url, found.manifests) == (
        "/run/file.sock", "http://10.0.0.1:1234/healthz", "/etc/manifests",
    )  # fmt: skip


def test_logs_are_where_the_file_says() -> None:
    assert layout().logs == "/var/log/pods"
    assert layout("", CONFIG, b"podLogsDir: /data/logs").logs == "/data/logs"


def test_flags_win_over_the_file() -> None:
    found = layout(
        "--container-runtime-endpoint=unix:///run/flag.sock --healthz_bind_address ::1 --healthz-port=99 "
        "--pod-manifest-path=/flag --root-dir=/data",
        CONFIG,
    )

    assert (found.endpoint, found.healthz_url, found.manifests, found.root) == (
        "/run/flag.sock", "http://[::1]:99/healthz", "/flag", "/data",
    )  # fmt: skip


def test_an_empty_flag_wins_too() -> None:
    assert layout("--pod-manifest-path=", CONFIG).manifests is None


def test_a_later_file_overrides_only_what_it_names() -> None:
    found = layout("", CONFIG, b"healthzPort: 4321", b"", b"staticPodPath: null")

    assert (found.healthz_url, found.manifests) == ("http://10.0.0.1:4321/healthz", None)


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("0.0.0.0", "127.0.0.1"),  # noqa: S104 - nothing is bound here
        ("", "127.0.0.1"),
        ("::", "[::1]"),
        ("fd00::7", "[fd00::7]"),
        ("10.0.0.7", "10.0.0.7"),
    ],
)
def test_health_is_asked_where_it_can_be_reached(address: str, host: str) -> None:
    assert layout(f"--healthz-bind-address={address}").healthz_url == f"http://{host}:10248/healthz"


@pytest.mark.parametrize(
    ("words", "config", "url"),
    [
        ("--healthz-port=0", b"", None),
        ("", b"healthzPort: 0", None),
        ("--healthz-port=10248", b"healthzPort: 0", "http://127.0.0.1:10248/healthz"),
        ("", b"healthzPort:", "http://127.0.0.1:10248/healthz"),
        ("--healthz-port=1 --healthz-port=2", b"", "http://127.0.0.1:2/healthz"),
    ],
)
def test_the_healthz_port(words: str, config: bytes, url: str | None) -> None:
    assert layout(words, config).healthz_url == url


@pytest.mark.parametrize(
    "endpoint", ["unix:///run/x.sock", "unix:/run/x.sock", "/run/x.sock", "unix:////run/x.sock", "//run/x.sock"]
)
def test_a_socket_is_a_path_however_it_is_written(endpoint: str) -> None:
    assert layout(f"--container-runtime-endpoint={endpoint}").endpoint == "/run/x.sock"


@pytest.mark.parametrize(
    ("words", "config"),
    [
        ("", b"- a\n- list"),
        ("", b"kind: ["),
        ("", b"just words"),
        ("", b"healthzPort: many"),
        ("--healthz-port=-1", b""),
        ("--container-runtime-endpoint=tcp://127.0.0.1:1", b""),
        ("", b"containerRuntimeEndpoint: npipe:////./pipe/x"),
    ],
)
def test_what_is_unclear_is_refused(words: str, config: bytes) -> None:
    with pytest.raises(ValueError, match=r"the (kubelet|runtime)'s "):
        layout(words, config)


@pytest.mark.parametrize(
    ("words", "config", "named"),
    [
        ("", b"staticPodPath: manifests", "staticPodPath is manifests"),
        ("--pod-manifest-path=manifests", CONFIG, "--pod-manifest-path is manifests"),
        ("--kubeconfig kubelet.conf", b"", "--kubeconfig is kubelet.conf"),
        ("--root-dir=../kubelet", b"", "--root-dir is ../kubelet"),
    ],
)
def test_a_relative_path_is_named_with_the_way_out(words: str, config: bytes, named: str) -> None:
    with pytest.raises(ValueError, match=rf"^{named}, which is a relative path; make it absolute"):
        layout(words, config)


def test_a_flag_wins_over_a_relative_path() -> None:
    assert layout("--pod-manifest-path=/flag", b"staticPodPath: manifests").manifests == "/flag"


def test_only_conf_files_are_drop_ins() -> None:
    assert [name for name in ("10-a.conf", "b.yaml", "c.conf.bak") if is_drop_in(name)] == ["10-a.conf"]


def test_gates_driver_and_hierarchy_are_read_from_both() -> None:
    config = b"cgroupDriver: systemd\nfeatureGates: {A: true, B: false}\nfailCgroupV1: false\n"
    found = layout("--feature-gates=B=true,C=1 --feature-gates D=false", config)

    assert found.gates == {"A": True, "B": True, "C": True, "D": False}
    assert (found.cgroup_driver, found.fails_on_cgroup_v1) == ("systemd", False)
    assert layout("--cgroup-driver=cgroupfs", config).cgroup_driver == "cgroupfs"


def test_gates_that_are_no_map_are_refused() -> None:
    with pytest.raises(ValueError, match="featureGates are not a map"):
        layout("", b"featureGates: [A]")


def test_maps_are_merged_and_lists_replaced() -> None:
    """As kubelets merge what lies in --config-dir (RFC 7396)."""
    first = b"featureGates: {A: true}\nevictionHard: {memory.available: 1Gi}\nclusterDNS: [a, b]"
    layout = read_layout((), first, b"featureGates: {B: true}\nevictionHard: {nodefs.available: 1%}\nclusterDNS: [c]")

    assert layout.gates == {"A": True, "B": True}
    assert layout.settings.document["evictionHard"] == {"memory.available": "1Gi", "nodefs.available": "1%"}
    assert layout.settings.document["clusterDNS"] == ["c"]


ENDPOINT = "--container-runtime-endpoint=unix:///run/cri-dockerd.sock"


@pytest.mark.parametrize(
    ("words", "config", "runtime", "expected"),
    [
        ("", b"", "docker", (True, "docker", "/var/run/docker.sock")),
        ("--container-runtime=docker", b"", "docker", (True, "docker", "/var/run/docker.sock")),
        ("--docker-endpoint=unix:///run/d.sock", b"", "docker", (True, "docker", "/run/d.sock")),
        (f"--container-runtime=docker {ENDPOINT}", b"", "docker", (True, "docker", "/var/run/docker.sock")),
        (f"--container-runtime=remote {ENDPOINT}", b"", "docker", (False, "cri-dockerd", "/run/cri-dockerd.sock")),
        (ENDPOINT, b"", "docker", (False, "cri-dockerd", "/run/cri-dockerd.sock")),
        ("", b"containerRuntimeEndpoint: unix:///c.sock", "docker", (False, "cri-dockerd", "/c.sock")),
        ("", b"", "containerd", (False, "containerd", "/run/containerd/containerd.sock")),
        ("--container-runtime=remote", b"", "containerd", (False, "containerd", "/run/containerd/containerd.sock")),
    ],
)  # fmt: skip
def test_who_talks_to_docker_and_where(
    words: str, config: bytes, runtime: str, expected: tuple[bool, str, str]
) -> None:
    layout = read_layout(tuple(words.split()), config, runtime=runtime)

    assert (layout.built_in, layout.runtime, layout.endpoint) == expected


def test_what_concerns_device_plugins_is_at_one_place_whatever_the_root_directory() -> None:
    paths = [str(path_of(name, "/my data")) for name in READ_AT_START]

    assert [path for path in paths if not path.startswith("/my data/")] == [
        "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
    ]
    assert sockets_beside(paths) == tuple(
        map(PurePosixPath, ("/var/lib/kubelet/device-plugins/kubelet.sock", "/my data/pod-resources/kubelet.sock"))
    )
    assert tuple(map(state_name, paths)) == READ_AT_START
    assert {str(state_place(path).parent) for path in paths} == {"/var/lib/kubelet", "/my data"}
