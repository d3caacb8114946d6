"""Tests for errors that the API server returns."""

from nodeupgrade.cluster.client.refusals import AheadError, failure


def test_only_a_version_that_is_ahead_is_not_tried_again() -> None:
    assert isinstance(failure("x", 504, "Timeout: Too large resource version: 9, current: 8"), AheadError)
    assert not isinstance(failure("x", 504, "the request timed out"), AheadError)
