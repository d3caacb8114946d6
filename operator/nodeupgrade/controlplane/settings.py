"""The operator's settings, read from the environment of its pod."""

from collections.abc import Mapping
from pathlib import Path

import yaml

from nodeupgrade.api.configuration import Configuration, ConfigurationError, parse_configuration
from nodeupgrade.api.int_or_percent import IntOrPercent
from nodeupgrade.api.yaml import read_one
from nodeupgrade.cluster.agent_pods import VARIABLE
from nodeupgrade.controlplane.wiring import DEFAULT_LIVENESS, OperatorSettings
from nodeupgrade.fleet.agents.manifests import AgentPodSettings
from nodeupgrade.fleet.cluster_budget import ClusterBudget
from nodeupgrade.fleet.guard.parameters import INSTALLED_IN
from nodeupgrade.sources.allowlist import Allowed, AllowedError, read_allowed
from nodeupgrade.text import number

CONFIGURATION_FILE = Path("/etc/nodeupgrade/config.yaml")
DEFAULT_METRICS = "0.0.0.0:8081"
LAST_PORT = 65535


class SettingsError(Exception):
    """A setting is missing or invalid; the message names it."""


def from_environment(environment: Mapping[str, str]) -> OperatorSettings:
    """Read the settings from environment variables.

    These are POD_NAMESPACE, POD_NAME, AGENT_IMAGE, by default the image of that pod, NODE_NAME, KUBECONFIG,
    LIVENESS_ENDPOINT, METRICS_ADDRESS, the budget of the cluster, MAX_IN_FLIGHT and MAX_UNAVAILABLE, which are
    unlimited if empty, and the paths of two files, CONFIG_FILE and ALLOWED. Without the latter, only what ``Allowed``
    allows by default is allowed. In tests, the failpoints' VARIABLE too.

    Raises:
        SettingsError: AGENT_IMAGE and POD_NAME are missing, METRICS_ADDRESS is not an address with a port, a part of
            the budget is neither a number nor a percentage, or one of the files is not valid.
    """
    image, pod = environment.get("AGENT_IMAGE", ""), environment.get("POD_NAME", "")
    if not image and not pod:
        raise SettingsError(
            "cannot start because AGENT_IMAGE is not set, nor POD_NAME, the pod whose image agents get; set one of them"
        )
    kubeconfig = environment.get("KUBECONFIG")
    address = environment.get("METRICS_ADDRESS", DEFAULT_METRICS)
    host, _, digits = address.rpartition(":")
    if not host or (port := number(digits)) is None or port > LAST_PORT:
        raise SettingsError(
            f"cannot serve metrics on METRICS_ADDRESS={address!r}; set it to an address such as {DEFAULT_METRICS}"
        )
    return OperatorSettings(
        agents=AgentPodSettings(
            namespace=environment.get("POD_NAMESPACE", INSTALLED_IN),
            image=image,
            failpoints=environment.get(VARIABLE),
            allowed=_allowed(environment.get("ALLOWED")),
        ),
        node=environment.get("NODE_NAME"),
        pod=pod or environment.get("HOSTNAME") or "operator",
        kubeconfig=Path(kubeconfig) if kubeconfig else None,
        allowed_file=Path(environment["ALLOWED"]) if "ALLOWED" in environment else None,
        liveness=environment.get("LIVENESS_ENDPOINT", DEFAULT_LIVENESS),
        metrics_host=host.strip("[]"),
        metrics_port=port,
        configuration=_configuration(environment.get("CONFIG_FILE")),
        cluster_budget=ClusterBudget(
            max_in_flight=_limit(environment, "MAX_IN_FLIGHT"), max_unavailable=_limit(environment, "MAX_UNAVAILABLE")
        ),
    )


def still_allows(file: Path, allowed: Allowed) -> bool:
    """Report whether the file of what is allowed says what it did when it was read; if it is away, it does.

    Raises:
        SettingsError: The file is not valid, so that an operator could not start with it.
    """
    return not file.exists() or _allowed(str(file)) == allowed


def _limit(environment: Mapping[str, str], name: str) -> IntOrPercent | None:
    text = environment.get(name, "")
    try:
        return IntOrPercent.parse(text if (found := number(text)) is None else found) if text else None
    except ValueError as error:
        raise SettingsError(f"cannot start because of {name}: {error}; leave it empty for no limit") from error


def _configuration(file: str | None) -> Configuration:
    """Read the configuration; without one at its default place, nothing is configured."""
    path = Path(file) if file else CONFIGURATION_FILE
    if not file and not path.exists():
        return Configuration()
    try:
        return parse_configuration(read_one(path.read_bytes()))
    except (OSError, yaml.YAMLError, ConfigurationError) as error:
        raise SettingsError(f"cannot use the configuration {path} because {error}") from error


def _allowed(path: str | None) -> Allowed:
    if path is None:
        return Allowed()
    try:
        return read_allowed(read_one(Path(path).read_bytes()))
    except (OSError, yaml.YAMLError, UnicodeDecodeError, AllowedError) as error:
        raise SettingsError(f"cannot start because ALLOWED={path} cannot be read: {error}") from error
