"""Tests how the operator's settings and configuration file are read and validated."""

from pathlib import Path

import pytest
import yaml

from nodeupgrade.api.configuration import Configuration, NoticeFormat, PrometheusServer
from nodeupgrade.controlplane import settings
from nodeupgrade.controlplane.settings import SettingsError, from_environment
from nodeupgrade.fleet.cluster_budget import ClusterBudget
from nodeupgrade.sources.allowlist import Allowed
from tests.builders.manifests import MANIFESTS

IMAGE = {"AGENT_IMAGE": "nodeupgrade:dev"}


def read(tmp_path: Path, text: str) -> Configuration:
    (tmp_path / "config.yaml").write_text(text)
    return from_environment({**IMAGE, "CONFIG_FILE": str(tmp_path / "config.yaml")}).configuration


def test_what_it_says_is_read(tmp_path: Path) -> None:
    text = "prometheus:\n- {name: default, url: 'https://prometheus.monitoring:9090/', caFile: /ca.crt}\n"
    server = PrometheusServer(name="default", url="https://prometheus.monitoring:9090/", ca_file="/ca.crt")
    assert read(tmp_path, text).prometheus == (server,)


def test_receivers_are_read(tmp_path: Path) -> None:
    (ops,) = read(
        tmp_path, "notifications: [{name: ops, url: 'https://hooks.example/x?y=z', format: Slack}]"
    ).notifications
    assert (ops.url, ops.format) == ("https://hooks.example/x?y=z", NoticeFormat.SLACK)


@pytest.mark.parametrize("text", ["", "{}", "prometheus: []"])
def test_it_may_say_nothing(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text).prometheus == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "not a map"),
        ("text", "not a map"),
        ("prometheus: [", "line 2"),
        ("prometeus: []", "did you mean prometheus"),
        ("prometheus: [{name: default}]", "url"),
        ("prometheus: [{name: default, url: 'file:///etc/passwd'}]", "an https or http URL"),
        ("prometheus: [{name: default, url: 'http://a?b'}]", "must not have a query or fragment"),
        ("prometheus: [{name: default, url: 'http://a'}, {name: default, url: 'http://b'}]", "default"),
        ("prometheus: [{name: default, url: 'http://a', caFile: ca.crt}]", "an absolute path"),
        ("notifications: [{name: ops, url: 'https://a', format: Pigeon}]", "Slack"),
        ("prometheus: [{name: default, url: 'http://a', token: secret}]", "unknown field"),
    ],
)
def test_what_is_wrong_with_it_is_told(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SettingsError, match="cannot use the configuration") as told:
        read(tmp_path, text)
    assert said in str(told.value)


def test_a_file_that_is_named_must_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match=r"config\.yaml because"):
        from_environment({**IMAGE, "CONFIG_FILE": str(tmp_path / "config.yaml")})
    monkeypatch.setattr(settings, "CONFIGURATION_FILE", tmp_path / "config.yaml")
    assert from_environment(IMAGE).configuration == Configuration()


def test_operator_says_which_setting_is_missing() -> None:
    with pytest.raises(SettingsError, match="AGENT_IMAGE is not set, nor POD_NAME"):
        from_environment({"AGENT_IMAGE": ""})


def test_agents_get_the_image_of_its_own_pod_unless_another_is_set() -> None:
    assert from_environment({"POD_NAME": "operator-0"}).agents.image == ""
    assert from_environment({"POD_NAME": "operator-0", **IMAGE}).agents.image == "nodeupgrade:dev"


def test_operator_deployment_gives_every_setting() -> None:
    deployment = yaml.safe_load((MANIFESTS / "operator.yaml").read_text())
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    given = {"ALLOWED", "MAX_IN_FLIGHT", "MAX_UNAVAILABLE", "POD_NAMESPACE", "POD_NAME", "NODE_NAME"}
    assert given == {entry["name"] for entry in container["env"]}


def test_the_cluster_has_no_budget_unless_one_is_set() -> None:
    for given in ({}, {"MAX_IN_FLIGHT": "", "MAX_UNAVAILABLE": ""}):
        assert from_environment({**IMAGE, **given}).cluster_budget == ClusterBudget()


@pytest.mark.parametrize("text", ["0", "20", "5%", "100%"])
def test_a_budget_of_the_cluster_is_a_number_or_a_percentage(text: str) -> None:
    one = from_environment({**IMAGE, "MAX_IN_FLIGHT": text}).cluster_budget
    assert (str(one.max_in_flight), one.max_unavailable) == (text, None)
    other = from_environment({**IMAGE, "MAX_UNAVAILABLE": text}).cluster_budget
    assert (other.max_in_flight, str(other.max_unavailable)) == (None, text)


@pytest.mark.parametrize("text", ["many", "-1", "101%", "1.5", " 5", "5 %", "²"])
@pytest.mark.parametrize("name", ["MAX_IN_FLIGHT", "MAX_UNAVAILABLE"])
def test_a_budget_that_is_neither_is_refused(name: str, text: str) -> None:
    with pytest.raises(SettingsError, match=f"because of {name}: .* is neither a number of nodes nor a percentage"):
        from_environment({**IMAGE, name: text})


def test_the_file_that_is_installed_allows_what_is_allowed_without_one(tmp_path: Path) -> None:
    given = {"AGENT_IMAGE": "nodeupgrade:dev"}
    installed = from_environment({**given, "ALLOWED": str(MANIFESTS / "allowed.yaml")})
    assert installed.agents.allowed == from_environment(given).agents.allowed == Allowed()
    assert (installed.allowed_file, from_environment(given).allowed_file) == (MANIFESTS / "allowed.yaml", None)
    for text in ("urls: [http]", "url: [x]", "{", "- a", "\x00", "paths: [../x]", "files: [etc]"):
        (tmp_path / "allowed.yaml").write_text(text)
        with pytest.raises(SettingsError, match=r"allowed\.yaml cannot be read: "):
            from_environment({**given, "ALLOWED": str(tmp_path / "allowed.yaml")})
    with pytest.raises(SettingsError, match="No such file"):
        from_environment({**given, "ALLOWED": str(tmp_path / "none.yaml")})
