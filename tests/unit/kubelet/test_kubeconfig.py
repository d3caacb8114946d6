"""Tests for parsing a kubeconfig file."""

from pathlib import Path, PurePosixPath

import pytest

from nodeupgrade.kubelet.kubeconfig import parse
from tests.builders.lease_server import ApiServer, kubeconfig, pair, server

__all__ = ["pair", "server"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"[", "not a kubeconfig"),
        (b"a: b", "not a kubeconfig"),
        (b"[]", "not a kubeconfig"),
        (b"current-context: x\ncontexts: []", "not a kubeconfig"),
        (b"{a: " * 2000, "not a kubeconfig"),
        (
            b"a: &a [x, x, x, x, x, x, x, x, x, x]\n"
            + b"".join(b"%c: &%c [%s]\n" % (n, n, b", ".join([b"*%c" % (n - 1)] * 10)) for n in b"bcdefgh"),
            "not a kubeconfig",
        ),
    ],
)
def test_what_is_no_kubeconfig_is_named(text: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse(text, PurePosixPath("/"))


def test_what_is_no_program_is_no_credential(server: ApiServer, pair: tuple[Path, Path]) -> None:
    text = kubeconfig(server, pair, {"exec": "aws"})

    with pytest.raises(ValueError, match="neither a certificate nor a token"):
        parse(text, PurePosixPath("/"))


def test_a_server_without_tls_is_not_spoken_to(server: ApiServer, pair: tuple[Path, Path]) -> None:
    text = kubeconfig(server, pair, {"token": "t"}).replace(b"https://", b"http://")

    with pytest.raises(ValueError, match="is not an https URL"):
        parse(text, PurePosixPath("/"))
