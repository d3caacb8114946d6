"""Which checks are shown on a real node, and why the others are not."""

from collections import defaultdict
from collections.abc import Mapping

from e2e.preflight.kinds import ROWS


def _rows_by_check() -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = defaultdict(tuple)
    for row in ROWS:
        found[row.shows] += (row.name,)
    return dict(found)


SHOWN: Mapping[str, tuple[str, ...]] = _rows_by_check()
"""Name of a check, to the names of the rows that show it."""

NOT_SHOWN: Mapping[str, str] = {
    "task_is_readable": "the API server refuses tasks that this version cannot read",
    "node_is_not_held": "a node that is held is examined all the same",
    "no_pod_holds_the_node": "a node that is held is examined all the same",
    "tokens_are_requested": "needs a kubelet before 1.12, whose pods get tokens from the lab: scenario tests",
    "node_is_free": "needs two rollouts at work: e2e/test_fleet.py",
    "program_is_of_this_node": "the machine has no filesystem of another machine: unit tests",
    "runtime_is_understood": "needs a node with dockershim: e2e/test_docker.py",
    "runtime_is_proven": "needs a node with CRI-O, which cannot be had on the machine",
    "pods_keep_their_cgroup": "no two of the lab's kubelets disagree on the QoS class of a pod that both can run",
    "sandboxes_are_sound": "the kubelet replaces such a pod within a second, before it can be looked at",
    "runtime_survives_a_restart": "needs a defective containerd, or a node that is too busy to be examined",
    "services_keep_endpoints": "the control plane refuses such a node first (required_guard_is_possible)",
    "package_manager_leaves_the_kubelet": "no row's kubelet belongs to a package: e2e/test_package.py, unit tests",
    "pods_are_not_validated": "needs a way back to kubelet 1.7, which is built by hand only",
    "apparmor_is_there": "the kernel of the machine has no AppArmor",
    "memory_is_as_recorded": "they are the machine's, and no node of the lab may change them: unit tests",
    "numa_nodes_are_not_chosen_anew": "the machine has one NUMA node",
    "accepted_hashes_were_compared": "needs a kubelet that was built to accept another one's hashes: scenario tests",
    "manifests_tell_what_runs": "the running kubelet would not have read the manifest either",
    "edits_of_manifests_count": "needs a kubelet from 1.31 on before the upgrade: e2e/test_static_pods.py",
    "control_plane_is_not_of_kubeadm": "needs a control plane that kubeadm made: `python -m e2e.kubeadm`",
    "ports_are_free": "who takes a port has to do it while no kubelet runs: the faults port/…, scenario tests",
    "https_probes_keep_their_tls": "needs a kubelet before 1.30",
    "exec_probes_are_timed_already": "needs a kubelet before 1.20",
    "grpc_probes_run_already": "needs a kubelet before 1.24 under an API server from 1.23 on",
    "user_namespaces_are_recorded": "neither kubelet 1.30 nor containerd 1.6 of the lab makes user namespaces",
    "user_namespaces_stay_as_they_are": "neither kubelet 1.30 nor containerd 1.6 of the lab makes user namespaces",
    "host_ports_are_free": "a running kubelet does not admit the second pod either",
    "memory_has_room": "a running kubelet with such a threshold evicts the pods before anybody has looked",
    "nothing_is_updated_in_place": "needs OpenKruise",
    "no_pod_restarts_as_a_whole": "needs an API server from 1.36 on",
    "restart_policies_are_heeded": "needs a kubelet from 1.35 on before the upgrade",
    "events_stay_limited": "needs a target from 1.37 on",
    "sidecars_keep_to_their_storage": "needs a target from 1.37 on",
    "memory_is_not_throttled_anew": "needs a target from 1.37 on, on cgroup v2",
    "status_outlasts_a_restart": "needs a target from 1.35 on",
    "resizes_are_over": "needs a kubelet from 1.33 on before the upgrade",
    "pod_level_resources_are_not_in_use": "needs a kubelet from 1.36 on before the upgrade",
    "claims_are_recorded": "the machine has no driver of dynamic resource allocation",
    "volumes_keep_their_place": "the machine has no CSI driver",
    "volumes_keep_their_label": "the kernel of the machine has no SELinux",
    "files_keep_their_modes": "needs a kubelet before 1.20, and a CSI driver",
    "cordoned_node_keeps_its_traffic": "needs a control plane before 1.19",
    "chains_are_not_missed": "needs a kubelet before 1.27",
    "extended_resources_are_kept": "needs a target before 1.14.9, for which the node's other pods are refused too",
    "labels_are_read_first": "needs a target before 1.20.3, for which the node's other pods are refused too",
    "init_containers_are_remembered": "needs a target before 1.21, for which the node's other pods are refused too",
    "files_can_be_exchanged": "the NodeUpgrades of the rows exchange no files: e2e/test_files.py, unit tests",
    "files_keep_what_must_stay": "the NodeUpgrades of the rows exchange no files: unit tests",
    "static_pods_stay_valid": "needs a target from 1.36 on: unit tests",
    "features_of_pods_are_on": "needs a target from 1.34 on with a feature gate turned off: unit tests",
    "runtime_keeps_its_cgroup_driver": "containerd 1.6 of the lab does not report its driver: unit tests",
    "devices_outlast_a_reload": "needs a node with the systemd cgroup driver: e2e/test_devices.py",
    "pods_stay_on_a_cordoned_node": "needs a descheduler: scenario tests",
    "longhorn_stays_ready": "needs Longhorn: scenario tests",
    "nobody_may_begin_an_upgrade": "needs a distribution with such a service: unit tests",
    "drop_ins_start_the_same": "the NodeUpgrades of the rows exchange no files: unit tests",
    "old_kubelet_accepts_its_files": "the NodeUpgrades of the rows exchange no files: unit tests",
    "release_harms_no_pod": "needs a target before 1.28, for which the node's other pods are refused too, or ZFS",
}
"""Name of a check, to why it cannot be shown on the machine that the tests run on."""
