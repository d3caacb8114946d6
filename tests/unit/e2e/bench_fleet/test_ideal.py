"""What the benchmark of a fleet compares with."""

from e2e.bench_fleet.ideal import ends


def test_nodes_in_step_end_round_by_round() -> None:
    assert list(ends([10.0] * 5, in_flight=2)) == [10, 10, 20, 20, 30]


def test_a_slot_is_given_to_the_next_node_at_once() -> None:
    assert list(ends([3.0, 10.0, 4.0, 1.0], in_flight=2)) == [3, 7, 8, 10]


def test_fewer_nodes_than_slots_all_begin_at_once() -> None:
    assert list(ends([2.0, 1.0], in_flight=5)) == [1, 2]
