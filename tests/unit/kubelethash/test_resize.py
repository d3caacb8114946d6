"""Tests which resize policies may restart a container."""

from nodeupgrade.kubelethash import resize_may_restart


def test_an_amount_that_cannot_be_read_counts() -> None:
    container = {"name": "c", "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]}

    assert resize_may_restart({**container, "resources": {"limits": {"cpu": "a lot"}}}, "1.32", "1.33")
