"""Tests how the result of a row is reported."""

from e2e.kubeadm.row import Row, Seen, result
from e2e.kubeadm.stage import Upgraded
from e2e.kubeadm.watching import Asked, Watch


def test_a_line_of_the_table_tells_what_is_not_as_it_must_be() -> None:
    watch = Watch(servers=Asked(3, ["refused"]), etcd=Asked(2))
    run = Upgraded(ended="RolledBack (`X`)", message="why", containers=9, disturbed=("web",), watch=watch, seconds=1)
    row = Row(name="a/b", does="what is done", play=lambda _: Seen())

    wrong = tuple(run.wrong())
    line = str(result(row, Seen(run=run, said="seen", complaints=wrong), 1.0))

    assert line.startswith("| what is done | RolledBack (`X`) | 9 | 1 | 3, 1 failed | 2, 0 failed | seen; **")
    assert [each.split()[0] for each in wrong] == ["ended", "1", "an"]
    assert not [*Upgraded(
        ended="Succeeded", message="", containers=9, disturbed=(), watch=Watch(), seconds=1
    ).wrong()]  # fmt: skip
