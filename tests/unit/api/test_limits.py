"""What is too long for the API loses its middle."""

import pytest

from nodeupgrade.api import limits

FAR = "node web-1 was not touched because the containers of its pods cannot be listed, and so nothing is known of them"
DENIED = (
    "cannot POST /api/v1/namespaces/nodeupgrade-system/pods because the API server answers 403: pods "
    '"nodeupgrade-agent" is forbidden: violates PodSecurity "restricted:latest": privileged'
)


@pytest.mark.parametrize(
    ("text", "length", "shortened"),
    [
        ("short enough", 12, "short enough"),
        (FAR, 60, "node web-1 was not touched… so nothing is known of them"),
        (DENIED, 128, f"{DENIED[:62]}… {DENIED[DENIED.index('forbidden') :]}"),
        ("a" * 70, 60, f"{'a' * 29}…{'a' * 30}"),
        (f"cannot GET /x because it answers 500: {'b' * 90}", 60, f"cannot GET /x because it…{'b' * 30}"),
        ("abcd", 3, "a…d"),
    ],
)
def test_the_middle_of_a_text_is_left_out_between_words(text: str, length: int, shortened: str) -> None:
    assert limits.shorten(text, length) == shortened
    assert len(shortened) <= length


@pytest.mark.parametrize("text", [FAR, DENIED, "a" * 300, " ".join("a" * 60)])
def test_it_never_exceeds_its_limit(text: str) -> None:
    assert [length for length in range(1, 300) if len(limits.shorten(text, length)) > length] == []
