"""The part of CRI-O's configuration that decides whether it finds its containers again. Pure.

A running CRI-O shows its configuration as TOML with every setting. Its program prints, without starting, a TOML in
which settings with their defaults are comments; older ones print all of them.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from nodeupgrade.text import parse_toml

LOGS = PurePosixPath("/var/log/crio/pods")
"""The default of ``log_dir``, which a starting CRI-O makes, though kubelets have all logs elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """How CRI-O asks about the containers of one runtime handler."""

    path: str = ""  # of the program; empty where it is looked up
    root: str | None = None  # directory of the program's records of containers, empty for the default; None if unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class CrioConfiguration:
    """Settings of CRI-O."""

    root: str  # directory of the storage
    runroot: str  # directory of the storage's volatile part
    driver: str  # of the storage
    listen: str  # path of its socket
    default_runtime: str  # name of the handler of containers that name none
    handlers: Mapping[str, Handler]  # by name
    logs: str = str(LOGS)  # the directory for logs of pods, which it makes when it starts, or else exits
    # files in which a starting CRI-O looks for its own version, and without which it removes every pod
    version_files: tuple[str, ...] = ()


COMMENTED_SETTING = re.compile(
    r'^# *(root|runroot|log_dir|storage_driver|listen|default_runtime) = ("[^"\n]*")$', re.MULTILINE
)
COMMENTED_HANDLER = re.compile(
    r"^# *\[crio\.runtime\.runtimes\.([\w-]+)\]\n((?:# *\w+ = .*\n)*)", re.ASCII | re.MULTILINE
)
HANDLER_SETTING = re.compile(r'^# *(runtime_path|runtime_root) = "([^"\n]*)"$', re.MULTILINE)


def parse_configuration(document: Mapping[str, Any]) -> CrioConfiguration:
    """Read a configuration with every setting.

    Raises:
        KeyError, TypeError: a setting is missing, or is not of its type.
    """
    crio = document["crio"]
    runtime = crio["runtime"]
    handlers = {str(name): _handler(table) for name, table in runtime["runtimes"].items()}
    default_runtime = _text(runtime["default_runtime"])
    if (default := handlers.get(default_runtime)) is not None:
        heirs = (str(name) for name, table in runtime["runtimes"].items() if table.get("inherit_default_runtime"))
        handlers |= {name: replace(handlers[name], root=default.root) for name in heirs}
    noted = (crio.get("version_file"), crio.get("version_file_persist")) if crio.get("internal_wipe") is True else ()
    return CrioConfiguration(
        root=_text(crio["root"]),
        runroot=_text(crio["runroot"]),
        logs=_text(crio.get("log_dir") or str(LOGS)),
        driver=_text(crio["storage_driver"]),
        listen=_text(crio["api"]["listen"]),
        default_runtime=default_runtime,
        handlers=handlers,
        version_files=tuple(_text(path) for path in noted if path),
    )


def parse_printed(text: str) -> CrioConfiguration:
    """Read the configuration that CRI-O's program prints.

    Raises:
        ValueError, KeyError, TypeError: it is not TOML, or a setting is missing.
    """
    document = parse_toml(text.encode())
    defaults = {
        name: parse_toml(f"value = {value}".encode())["value"] for name, value in COMMENTED_SETTING.findall(text)
    }
    crio = dict(document.get("crio", {}))
    runtime = dict(crio.get("runtime", {}))
    defaults_of = {name: dict(HANDLER_SETTING.findall(block)) for name, block in COMMENTED_HANDLER.findall(text)}
    handlers: dict[str, Any] = defaults_of | dict(runtime.get("runtimes", {}))
    runtime = {**_named(defaults, "default_runtime"), **runtime, "runtimes": handlers}
    api = {**_named(defaults, "listen"), **crio.get("api", {})}
    base = _named(defaults, "root", "runroot", "log_dir", "storage_driver")
    return parse_configuration({"crio": {**base, **crio, "api": api, "runtime": runtime}})


def find_harm(running: CrioConfiguration, following: CrioConfiguration) -> Iterator[str]:
    """Yield the differences that make CRI-O consider running containers ended.

    It asks the program of each container's handler whether the container runs, and records the answer.
    """
    if running.default_runtime != following.default_runtime:
        yield (
            f"default_runtime would be {following.default_runtime} instead of {running.default_runtime}, which has no "
            "record of the running containers"
        )
    for name, now in running.handlers.items():
        if (then := following.handlers.get(name)) is None:
            yield f"there would be no runtime handler {name}, so its containers would be removed"
            continue
        if now.path and then.path and now.path != then.path:
            yield f"runtime handler {name} would be {then.path} instead of {now.path}"
        if now.root is not None and then.root is not None and now.root != then.root:
            yield (
                f"runtime_root of runtime handler {name} would be {then.root or 'the default'} instead of "
                f"{now.root or 'the default'}, and its program would have no record of the running containers: all of "
                "them would end; do not restart CRI-O before that is restored"
            )


def _handler(table: Mapping[str, object]) -> Handler:
    root = table.get("runtime_root")
    return Handler(path=_text(table.get("runtime_path", "")), root=None if root is None else _text(root))


def _named(settings: Mapping[str, str], *names: str) -> dict[str, str]:
    return {name: settings[name] for name in names if name in settings}


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a string")
    return value
