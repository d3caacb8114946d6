"""The part of CRI-O's configuration that decides whether it finds its containers again. Pure.

A running CRI-O shows its configuration as TOML in which every setting stands. Its program prints, without starting,
a commented TOML in which every setting that has its default is a comment; older ones print all of them.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

COMMENTED_SETTING = re.compile(r'^# *(root|runroot|storage_driver|listen|default_runtime) = ("[^"\n]*")$', re.MULTILINE)
COMMENTED_HANDLER = re.compile(r"^# *\[crio\.runtime\.runtimes\.([\w-]+)\]$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class CrioConfiguration:
    """Settings of CRI-O.

    Attributes:
        root: directory of the storage.
        runroot: directory of the storage's volatile part.
        driver: of the storage.
        listen: path of its socket.
        default_runtime: name of the handler of containers that name none.
        handlers: path of each handler's program, by name; empty where it is looked up.
    """

    root: str
    runroot: str
    driver: str
    listen: str
    default_runtime: str
    handlers: Mapping[str, str]


def configured(document: Mapping[str, Any]) -> CrioConfiguration:
    """Read a configuration in which every setting stands.

    Raises:
        KeyError, TypeError: a setting is missing, or is not of its type.
    """
    crio = document["crio"]
    runtime = crio["runtime"]
    handlers = {str(name): str(table.get("runtime_path", "")) for name, table in runtime["runtimes"].items()}
    return CrioConfiguration(
        root=_text(crio["root"]),
        runroot=_text(crio["runroot"]),
        driver=_text(crio["storage_driver"]),
        listen=_text(crio["api"]["listen"]),
        default_runtime=_text(runtime["default_runtime"]),
        handlers=handlers,
    )


def printed(text: str) -> CrioConfiguration:
    """Read what CRI-O's program prints as its configuration.

    Raises:
        ValueError, KeyError, TypeError: it is not TOML, or a setting is missing.
    """
    document = tomllib.loads(text)
    defaults = {name: tomllib.loads(f"value = {value}")["value"] for name, value in COMMENTED_SETTING.findall(text)}
    crio = dict(document.get("crio", {}))
    runtime = dict(crio.get("runtime", {}))
    handlers: dict[str, Any] = {name: {} for name in COMMENTED_HANDLER.findall(text)} | dict(
        runtime.get("runtimes", {})
    )
    runtime = {**_named(defaults, "default_runtime"), **runtime, "runtimes": handlers}
    api = {**_named(defaults, "listen"), **crio.get("api", {})}
    base = _named(defaults, "root", "runroot", "storage_driver")
    return configured({"crio": {**base, **crio, "api": api, "runtime": runtime}})


def harm(running: CrioConfiguration, following: CrioConfiguration) -> Iterator[str]:
    """Yield the differences for which CRI-O would take running containers for ended.

    It asks the program of each container's handler whether that runs, and writes down what it hears.
    """
    if running.default_runtime != following.default_runtime:
        yield (
            f"default_runtime would be {following.default_runtime} instead of {running.default_runtime}, which knows "
            "of no container that runs"
        )
    for name, path in running.handlers.items():
        if name not in following.handlers:
            yield f"there would be no runtime handler {name}, so that its containers would be removed"
        elif path and following.handlers[name] and path != following.handlers[name]:
            yield f"runtime handler {name} would be {following.handlers[name]} instead of {path}"


def _named(settings: Mapping[str, str], *names: str) -> dict[str, str]:
    return {name: settings[name] for name in names if name in settings}


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value
