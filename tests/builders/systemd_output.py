"""Text as systemctl prints it."""


def shown_command(line: str, path: str = "/usr/bin/kubelet", *, may_fail: bool = False) -> str:
    """A command as systemd shows it."""
    ignored = "yes" if may_fail else "no"
    return f"{{ path={path} ; argv[]={line} ; ignore_errors={ignored} ; start_time=[n/a] ; pid=0 ; status=0/0 }}"


KUBEADM = "KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/b.conf --kubeconfig=/etc/k.conf"
