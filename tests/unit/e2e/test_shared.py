"""What a module has left on the node that it shares is named."""

from e2e.shared import differences


def test_differences_are_named_with_both_values() -> None:
    before = {"/etc/same": "1", "/etc/changed": "1", "/etc/removed": "1"}
    after = {"/etc/same": "1", "/etc/changed": "2", "namespace new": ""}

    assert differences(before, after) == [
        "/etc/changed (1 → 2)",
        "/etc/removed (1 → is gone)",
        "namespace new (was not there → )",
    ]
    assert differences(before, before) == []
