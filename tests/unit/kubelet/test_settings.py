"""Tests how the kubelet's flags are parsed."""

from nodeupgrade.kubelet.layout import config_directory
from nodeupgrade.kubelet.settings import Configured


def test_the_last_configuration_counts() -> None:
    assert Configured(words=("--config=/a", "--config", "/b", "--v=2")).flag("config") == "/b"
    assert Configured(words=("--config=",)).flag("config") == ""
    assert Configured(words=("--configuration=/x", "--v=2")).flag("config") is None
    assert config_directory(("--config=/a", "--config-dir=/etc/kubelet.d")) == "/etc/kubelet.d"


def test_a_boolean_flag_without_a_value_is_true() -> None:
    given = Configured(
        words=("--rotate-certificates", "--protect-kernel-defaults", "--node-ip", "::1", "--fail-swap-on")
    )
    assert given.flag("rotate-certificates") == given.flag("protect-kernel-defaults") == "true"
    assert (given.flag("node-ip"), given.flag("fail-swap-on")) == ("::1", "true")
