"""Tests how the validity of a certificate is read."""

from datetime import timedelta

import pytest

from nodeupgrade.kubelet.certificate_validity import validity
from tests.builders.starting_cases import BORN, CERT, END


@pytest.mark.parametrize("cut", [0, 100, 200, 300, 500])
def test_a_damaged_certificate_is_told_apart(cut: int) -> None:
    head, begin, rest = CERT.partition(b"-----\n")
    body, _, _ = rest.partition(b"-----END")
    damaged = head + begin + body[: cut // 4 * 4] + b"-----END CERTIFICATE-----"

    with pytest.raises(ValueError, match="its certificate"):
        validity(damaged)


def test_a_certificate_says_how_long_it_is_valid() -> None:
    assert (BORN.isoformat(), END - BORN) == ("2026-11-21T17:55:30+00:00", timedelta(days=2))
