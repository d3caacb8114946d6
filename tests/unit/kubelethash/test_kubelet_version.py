"""Tests how kubelet versions are parsed and ordered."""

import pytest

from nodeupgrade.kubelethash import KubeletVersion, UnsupportedKubelet


@pytest.mark.parametrize(
    ("text", "version", "printed"),
    [
        ("v1.30.14", KubeletVersion(1, 30, 14), "v1.30.14"),
        ("1.30.14", KubeletVersion(1, 30, 14), "v1.30.14"),
        ("1.30", KubeletVersion(1, 30), "v1.30.0"),
        ("v1.30.5-gke.1443001", KubeletVersion(1, 30, 5, "-gke.1443001"), "v1.30.5-gke.1443001"),
        ("v1.33.3+k3s1", KubeletVersion(1, 33, 3, "+k3s1"), "v1.33.3+k3s1"),
        ("1.28.2-1.1", KubeletVersion(1, 28, 2, "-1.1"), "v1.28.2-1.1"),
        ("v1.27.1-eks-2f008fe", KubeletVersion(1, 27, 1, "-eks-2f008fe"), "v1.27.1-eks-2f008fe"),
    ],
)
def test_versions_are_read_as_they_are_written(text: str, version: KubeletVersion, printed: str) -> None:
    assert KubeletVersion.parse(text) == version
    assert str(version) == printed


@pytest.mark.parametrize("text", ["", "1", "v1.30.14.2", "1.30.x", "one.two", "1.30 14", "1.٣"])
def test_other_text_is_no_version(text: str) -> None:
    with pytest.raises(UnsupportedKubelet, match="not a version"):
        KubeletVersion.parse(text)


@pytest.mark.parametrize(
    "text", ["1.20-1.30", "v1.20-v1.30", "1.20.1-1.30.2", "1.20-1.30.2", "1.20..1.30", "1.20 - 1.30", "1.20 to 1.30"]
)
def test_a_range_is_no_version(text: str) -> None:
    with pytest.raises(UnsupportedKubelet, match="this is a range; name each version"):
        KubeletVersion.parse(text)


def test_versions_are_ordered_as_they_were_released() -> None:
    ordered = ["1.9.11", "1.10.0", "1.30.0-rc.1", "1.30.0", "1.30.0+k3s1", "1.30.2", "1.31.0-alpha.3", "1.31.0"]
    assert sorted(map(KubeletVersion.parse, sorted(ordered))) == [*map(KubeletVersion.parse, ordered)]
