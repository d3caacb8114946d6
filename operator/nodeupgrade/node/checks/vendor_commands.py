"""Commands that distributions put into the units of the kubelet and the runtime, and that leave both alone.

Each was read in its source. A line counts only with exactly this text, and a script that it runs only with exactly a
content that was read. systemd shows the words of a line without their quotes; no beginning of such a shell command is a
command by itself, so that the quotes cannot have been elsewhere.
"""

from collections.abc import Mapping

from nodeupgrade.node.host.systemd.units import UnitCommand

KNOWN = frozenset(
    {
        # https://github.com/kubernetes-sigs/kind/blob/fed268827e21/images/base/files/etc/systemd/system/
        # kubelet.service.d/11-kind.conf: creates the cgroup above all pods if it is missing, with all controllers on
        "/bin/sh -euc if [ -f /sys/fs/cgroup/cgroup.controllers ]; then /kind/bin/create-kubelet-cgroup-v2.sh; fi",
        # the same: creates a cgroup if it is missing
        (
            "/bin/sh -euc if [ ! -f /sys/fs/cgroup/cgroup.controllers ] && [ ! -d /sys/fs/cgroup/systemd/kubelet ]; "
            "then mkdir -p /sys/fs/cgroup/systemd/kubelet; fi"
        ),
        # https://github.com/Azure/AgentBaker/blob/06836ee2301e/parts/linux/cloud-init/artifacts/
        # cse_config.sh: adds rules to the chain FORWARD that drop requests to an address of the platform
        "/bin/bash /opt/azure/containers/kubelet.sh",
        # ensure_imds_restriction.sh: adds or removes a rule of the chain FORWARD for the metadata service
        "/bin/bash /opt/azure/containers/ensure_imds_restriction.sh",
        # validate-kubelet-credentials.sh: asks the API server whether a bootstrap token is valid, where there is no
        # kubeconfig yet
        "/bin/bash /opt/azure/containers/validate-kubelet-credentials.sh",
        # kubelet.service: makes the kubelet's directory a mount point, which it is since the last start
        (
            '/bin/bash -c if [ $(mount | grep "/var/lib/kubelet" | wc -l) -le 0 ] ; '
            "then /bin/mount --bind /var/lib/kubelet /var/lib/kubelet ; fi"
        ),
        # kubelet.service: waits for the runtime's socket
        "/bin/sh -c until [ -S /run/containerd/containerd.sock ]; do sleep 0.1; done",
    }
)
"""Command lines as systemd shows them, the program first."""
SCRIPTS: Mapping[str, tuple[str, ...]] = {
    "/kind/bin/create-kubelet-cgroup-v2.sh": ("199144121bd2ff79f20736d786cf1b2fcec227e0cdc9697993d7a0e02495cb57",),
    "/opt/azure/containers/kubelet.sh": (
        "faea97918ee82490197908f125ecfe2590f875e1230a763a064a59d27f323dc9",
        "f149024297714c8694c732901da2fed183d86e6c80d56d4b6d87f1358a7bbf40",
        "1a49f2b10455ba509d33da299b9dae18e66c1dc563fdfb49c2e1a6c8deddbaa2",
        "2c0710c6d7d5971356935891680eab3c280c4ebb2ea0aa140ec775ae9df22465",
    ),
    "/opt/azure/containers/ensure_imds_restriction.sh": (
        "dfe9a6a2d4a59b0bb81824cce424edccaa2361a113532fe0313d82996816b6a2",
        "ecbda7279bd150d2cac453b47960ea4fd79262c02d144b553cf64803661a1a88",
        "f61a6b9a8af8eb76e6f768b71ab53e6eb3a1a64b82e3c82f42f6a8b4e83f4999",
    ),
    "/opt/azure/containers/validate-kubelet-credentials.sh": (
        "10885433c435ca8af87d01421f561ae7dd02dd783c8e7d2d3abf867242bb7b38",
        "196939f2ba612677c7d6c566528b981cebafa8907272d92c509b9e86a5810c44",
        "346a4583bcf86239e6baed57df69d88c145c23de9c6d44adf0bf7036dc8e2a56",
        "8d72fb7e2528e4352a5e39361cd155d2eb639f44ea1b40ef86cfd915c783d403",
        "b44268cd2e82817942186353efd1cc6e8510e50438156c81047ed3218ad91be6",
        "d5253aef148463122f66a28a24be9630588ce47b2e2da2034b3b2290bee166b4",
        "e020cd490d819ee070338334e4f32a8aac7d232a128983b6cd6149b494557162",
        "e2a841342e48a163d48f0b62a29bfc42cd45f34c95aa0222df2e0f42f2f1bf6e",
        "f57d95d2a883fd4559adae30ae7e902595f829049fae2515700bac8350c2fe95",
    ),
}
"""The scripts that these run, each with the SHA-256 of every content that was read."""


def is_known(command: UnitCommand, contents: Mapping[str, str]) -> bool:
    """Report whether a command is one of these, given the SHA-256 of files on the node by path."""
    if command.line not in KNOWN or command.program != command.line.partition(" ")[0]:
        return False
    return all(contents.get(path) in read for path, read in SCRIPTS.items() if path in command.line)
