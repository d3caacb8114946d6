"""Tests how versions are parsed."""

import pytest

from e2e.lab import LabError
from e2e.lab.binaries.versions import Version


@pytest.mark.parametrize("text", ["1.30", "latest", "1.30.x", "", "1.30.14-rc.1"])
def test_versions_are_never_guessed(text: str) -> None:
    with pytest.raises(LabError, match="name it exactly"):
        Version.parse(text)
