"""The operator's configuration file: the servers that the operator may connect to.

Its administrator writes it, since users who create NodeUpgrades must not choose these servers.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final

from nodeupgrade.api.field import DNS_LABEL, Field, Rule
from nodeupgrade.api.json import from_json
from nodeupgrade.api.limits import PATH_LENGTH, URL_LENGTH
from nodeupgrade.api.schema.defaulting import filled
from nodeupgrade.api.schema.derive import schema_of
from nodeupgrade.api.schema.unknown_fields import unknown
from nodeupgrade.api.schema.validation import validate

_URL = Field(max_length=URL_LENGTH, pattern=r"https?://[^\s]+", expected="an https or http URL")
_PATH = Field(max_length=PATH_LENGTH, pattern=r"/[^\x00]+", expected="an absolute path")


class ConfigurationError(Exception):
    """The configuration is invalid; the message says where and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusServer:
    """A Prometheus that health checks may query."""

    name: Annotated[str, DNS_LABEL, "Name by which health checks refer to it."]
    url: Annotated[
        str,
        _URL,
        "URL of the server, without /api/v1.",
        Rule(
            "!self.contains('?') && !self.contains('#')",
            "the URL of a Prometheus server must not have a query or fragment; write only what precedes them",
        ),
    ]
    bearer_token_file: Annotated[str | None, _PATH, "File with a token to log in with; read for every query."] = None
    ca_file: Annotated[str | None, _PATH, "File with the CA certificates to trust instead of the system's."] = None


class NoticeFormat(StrEnum):
    """How notices are written."""

    JSON = "JSON"
    SLACK = "Slack"
    CLOUD_EVENTS = "CloudEvents"


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """A webhook that receives notices about rollouts."""

    name: Annotated[str, DNS_LABEL, "Name of the receiver, for messages and for the record of delivered notices."]
    url: Annotated[str, _URL, "URL to send notices to."]
    format: Annotated[NoticeFormat, "Format of the notices."] = NoticeFormat.JSON
    bearer_token_file: Annotated[str | None, _PATH, "File with a token to log in with; read for every notice."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The operator's configuration."""

    prometheus: Annotated[
        tuple[PrometheusServer, ...],
        "Prometheus servers that health checks may query.",
        Field(max_items=16, list_map_key="name"),
    ] = ()
    notifications: Annotated[
        tuple[Receiver, ...], "Webhooks that receive notices about rollouts.", Field(max_items=16, list_map_key="name")
    ] = ()


CONFIGURATION: Final = schema_of(Configuration, by_people=True)


def parse_configuration(data: Any) -> Configuration:  # Any: YAML that is not yet validated
    """Parse and validate a configuration; None is an empty one.

    Raises:
        ConfigurationError: A field is invalid or unknown; the message is the first problem.
    """
    written = {} if data is None else data
    if not isinstance(written, dict):
        known = ", ".join(CONFIGURATION.properties)
        raise ConfigurationError(f"$: the configuration is not a map; write {known}, as docs/operations.md shows")
    complete = filled(CONFIGURATION, written)
    for problem in (*unknown(CONFIGURATION, written, "$"), *validate(CONFIGURATION, complete, "$")):
        raise ConfigurationError(str(problem))
    return from_json(Configuration, complete)
