"""A kubelet's command line: what is left out, what a kubelet complains about, and how systemd reads the rest."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeupgrade.kubelet.flags import adapt, complaint, drop_in, parsed, rejected_flag
from nodeupgrade.kubelethash import KubeletVersion

KUBEADM_1_26 = (
    "--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf", "--config=/var/lib/kubelet/config.yaml",
    "--container-runtime=remote", "--container-runtime-endpoint=unix:///run/containerd/containerd.sock",
    "--pod-infra-container-image=pause:3.9",
)  # fmt: skip


SOCKET = "/run/containerd/containerd.sock"
ENDPOINT = f"unix://{SOCKET}"
CONTAINERD = f"--v=2 --container-runtime-endpoint={ENDPOINT}"


@pytest.mark.parametrize(
    ("words", "running", "target", "added"),
    [
        (CONTAINERD, "v1.33.13", "v1.20.15", ("--container-runtime=remote",)),
        (CONTAINERD, "v1.24.17", "v1.23.17", ("--container-runtime=remote",)),
        (CONTAINERD, "v1.33.13", "v1.24.17", ()),  # knows no other runtime
        (CONTAINERD, "v1.23.17", "v1.20.15", ()),  # uses its dockershim
        (f"{CONTAINERD} --container_runtime remote", "v1.26.15", "v1.20.15", ()),
        ("--v=2", "v1.33.13", "v1.20.15", ("--container-runtime=remote", f"--container-runtime-endpoint={ENDPOINT}")),
        ("--v=2", "v1.33.13", "v1.24.17", ()),
        # what every kubelet from 1.11 on does unasked
        ("--v=2", "v1.17.17", "v1.10.13", ("--allow-privileged=true",)),
        ("--v=2", "v1.11.10", "v1.9.11", ("--allow-privileged=true",)),
        ("--v=2", "v1.17.17", "v1.11.10", ()),
        ("--v=2", "v1.10.13", "v1.9.11", ()),  # it does not run such pods either
        ("--allow_privileged=false", "v1.12.10", "v1.9.11", ()),
        (CONTAINERD, "v1.33.13", "v1.10.13", ("--container-runtime=remote", "--allow-privileged=true")),
    ],
)
def test_an_older_kubelet_is_told_what_the_newer_one_does_unasked(
    words: str, running: str, target: str, added: tuple[str, ...]
) -> None:
    split, versions = tuple(words.split()), map(KubeletVersion.parse, (running, target))
    adapted = adapt(split, running=next(versions), target=next(versions), endpoint=SOCKET, remove=())
    assert (adapted.words, adapted.added, adapted.removed) == ((*split, *added), added, ())


def left_out(words: str | tuple[str, ...], target: str, *remove: str) -> tuple[str, ...]:
    split = tuple(words.split()) if isinstance(words, str) else words
    adapted = adapt(split, running=None, target=KubeletVersion.parse(target), endpoint="", remove=remove)
    gone = [flag.words for flag in parsed(split) if not {*flag.words} <= {*adapted.words}]
    kept = [word for word in split if all(word not in words for words in gone)]
    assert list(adapted.words) == kept, "everything else stays, in its order"
    names = dict.fromkeys(words[0].partition("=")[0] for words in gone)
    assert adapted.removed == (*names,), "people are told no value"
    return tuple(map(" ".join, gone))


@pytest.mark.parametrize(
    ("words", "target", "removed"),
    [
        # a flag goes with the minor that does not know it any more, not before
        (KUBEADM_1_26, "v1.26.15", ()),
        (KUBEADM_1_26, "v1.27.16", ("--container-runtime=remote",)),
        (KUBEADM_1_26, "v1.34.4", ("--container-runtime=remote",)),
        (KUBEADM_1_26, "v1.35.4", ("--container-runtime=remote", "--pod-infra-container-image=pause:3.9")),
        ("--pod-infra-container-image x --v=2", "v1.35.4", ("--pod-infra-container-image x",)),
        # what kubelets 1.7 needed, and kubeadm gave them
        ("--require-kubeconfig --v=2 --cadvisor-port 0", "v1.9.11", ()),
        ("--require-kubeconfig --v=2 --cadvisor-port 0", "v1.10.0", ("--require-kubeconfig",)),
        ("--require-kubeconfig=true --cadvisor-port=0", "v1.12.10", ("--require-kubeconfig=true", "--cadvisor-port=0")),
        ("--cadvisor-port=4194", "v1.12.10", ()),
        ("--allow-privileged --v=2", "v1.15.0", ("--allow-privileged",)),
        ("--allow-privileged=true", "v1.15.0", ("--allow-privileged=true",)),
        ("--allow-privileged=true", "v1.14.10", ()),
        # dockershim's flags mean nothing with a remote runtime, and something without
        ("--container-runtime=remote --network-plugin=cni", "v1.24.17", ("--network-plugin=cni",)),
        ("--container-runtime remote --network-plugin cni", "v1.24.17", ("--network-plugin cni",)),
        ("--network-plugin=cni", "v1.24.17", ()),
        ("--container-runtime=docker --network-plugin=cni", "v1.24.17", ()),
        # kubelets take underscores for dashes
        ("--container_runtime=remote --cni_bin_dir=/x", "v1.27.16", ("--container_runtime=remote", "--cni_bin_dir=/x")),
        # the logging library's flags, where they are set to their defaults
        ("--logtostderr=true --v=2", "v1.25.16", ()),
        ("--logtostderr=true --v=2", "v1.26.15", ("--logtostderr=true",)),
        ("--logtostderr --alsologtostderr=false positional", "v1.26.15", ("--logtostderr", "--alsologtostderr=false")),
        ("--logtostderr=1 --alsologtostderr=False", "v1.26.15", ("--logtostderr=1", "--alsologtostderr=False")),
        ("--logtostderr=false --log-dir=/var/log", "v1.26.15", ()),
        ("--logtostderr=F --alsologtostderr=t", "v1.26.15", ()),
        ("--alsologtostderr", "v1.26.15", ()),
        # cAdvisor's, which concern only metrics, or are set to their defaults
        ("--containerd=/run/containerd/containerd.sock", "v1.36.3", ()),
        ("--containerd=/run/containerd/containerd.sock", "v1.37.2", ("--containerd=/run/containerd/containerd.sock",)),
        ("--containerd /run/k3s/containerd/containerd.sock", "v1.37.2", ()),
        ("--event-storage-age-limit default=0 --v 2", "v1.37.2", ("--event-storage-age-limit default=0",)),
        ("--enable_load_reader x --boot-id-file=/etc/boot", "v1.37.2", ("--enable_load_reader",)),
        ("--housekeeping-interval=10s", "v1.37.2", ()),
        # what has a meaning is a person's decision
        ("--allow-privileged=false", "v1.15.0", ()),
        ("--container-runtime=docker", "v1.27.16", ()),
        ("--experimental-foo=1 -v=2 positional", "v1.33.13", ()),
    ],
)  # fmt: skip
def test_only_what_means_nothing_is_left_out_unasked(
    words: str | tuple[str, ...], target: str, removed: tuple[str, ...]
) -> None:
    assert left_out(words, target) == removed


@pytest.mark.parametrize("name", ["feature-gates", "--feature-gates", "--feature-gates=A=true", "feature_gates"])
def test_what_the_user_lists_is_left_out_however_it_is_written(name: str) -> None:
    words = "--feature-gates=A=true --v=2 --feature-gates B=false --oom-score-adj -999"

    assert left_out(words, "v1.33.13", name) == ("--feature-gates=A=true", "--feature-gates B=false")


def test_a_flag_takes_its_value_along() -> None:
    assert left_out("--oom-score-adj -999 --v 2", "v1.33.13", "oom-score-adj") == ("--oom-score-adj -999",)
    assert left_out("--fail-swap-on --v 2", "v1.33.13", "fail-swap-on") == ("--fail-swap-on",)
    assert left_out("--v 2 --last", "v1.33.13", "last") == ("--last",)


def test_dashes_alone_remove_nothing() -> None:
    assert left_out("-v 2 --", "v1.33.13", "--", "-v", "") == ()


USAGE = "Usage:\n  kubelet [flags]\n\nFlags:\n      --address ip   The IP address\n"
TRACE = "goroutine 1 [running]:\nk8s.io/klog.stacks(0xc000122001)\n\t/go/klog.go:855 +0xb8\n"


@pytest.mark.parametrize(
    ("output", "flag", "line"),
    [
        # 1.15: usage, then a fatal log line, then the stacks of all goroutines
        (
            f"{USAGE}F1120 10:00:00.123456    4242 server.go:153] unknown flag: --container-runtime-foo\n{TRACE}",
            "container-runtime-foo",
            "F1120 10:00:00.123456    4242 server.go:153] unknown flag: --container-runtime-foo",
        ),
        # 1.20: "Error" before the usage
        (f"Error: unknown flag: --foo\n{USAGE}unknown flag: --foo\n", "foo", "Error: unknown flag: --foo"),
        # 1.24 and newer: a structured log line
        (
            'E1120 10:00:00.1 1 run.go:74] "command failed" err="failed to parse kubelet flag: unknown flag: --foo"\n',
            "foo",
            'E1120 10:00:00.1 1 run.go:74] "command failed" err="failed to parse kubelet flag: unknown flag: --foo"',
        ),
        ("unknown shorthand flag: 'x' in -x\n", "x", "unknown shorthand flag: 'x' in -x"),
        (
            'invalid argument "x" for "--v" flag\n',
            None,
            'invalid argument "x" for "--v" flag',
        ),
        ("it just ends\nhere\n", None, "here"),
        ("\n", None, "no output"),
    ],
)
def test_what_a_kubelet_complains_about(output: str, flag: str | None, line: str) -> None:
    assert (rejected_flag(output), complaint(output)) == (flag, line)


def systemd_reads(drop_in: bytes) -> list[str]:
    """The command of a unit's last ExecStart, by the rules of systemd.service(5), "Command lines"."""
    (line,) = [line for line in drop_in.split(b"\n") if line.startswith(b"ExecStart=") and line != b"ExecStart="]
    text = line.removeprefix(b"ExecStart=").decode(errors="surrogateescape")
    words, at = [], 0
    while at < len(text):
        quoted = re.compile(r'"((?:[^"\\]|\\.)*)"(?= |$)').match(text, at)
        plain = re.compile(r"""[^ "'\\]+(?= |$)""").match(text, at)
        found = quoted or plain
        assert found is not None, f"unbalanced at {text[at:]!r}"
        assert found.group(0) != ";", "an unquoted semicolon begins another command"
        words.append(_unescaped(found.group(1) if quoted else found.group(0)))
        at = found.end() + 1
    return words


def _unescaped(word: str) -> str:
    """C escapes first, then specifiers, then variables; the last two only where they are doubled."""
    escapes = {"n": "\n", "r": "\r", "t": "\t", "v": "\v", "f": "\f", "\\": "\\", '"': '"'}
    word = re.sub(r"\\(.)", lambda escape: escapes[escape.group(1)], word)
    for sign in "%$":
        assert sign not in word.replace(2 * sign, ""), f"{word!r} would be expanded"
        word = word.replace(2 * sign, sign)
    return word


WORDS = st.text(st.characters(exclude_characters="\0", max_codepoint=0x2FF), max_size=12) | st.sampled_from(
    ["", ";", "a;b", "$HOME", "${X}", "100%", "%n", "a b", "it's", '"', "\\", "\\n", "--a=b c", "\udcff", "é"]
)


@given(st.lists(WORDS, max_size=6))
def test_systemd_reads_exactly_these_arguments(words: list[str]) -> None:
    assert systemd_reads(drop_in("/usr/bin/kubelet", tuple(words))) == ["/usr/bin/kubelet", *words]


def test_the_drop_in_replaces_the_command() -> None:
    lines = drop_in("/usr/bin/kubelet", ("--v=2",)).decode().splitlines()

    assert [line for line in lines if not line.startswith("#")] == [
        "[Service]", "ExecStart=", "ExecStart=/usr/bin/kubelet --v=2",
    ]  # fmt: skip
