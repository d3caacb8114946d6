"""Runs a health script as Argo CD does: Lua 5.1 with the basic functions and ``table``, and nothing else."""

from typing import Any

from lupa.lua51 import LuaRuntime, lua_type

from nodeupgrade.api.json import Json

# A script of argocd-cm finds no string, math, io or debug library unless resource.customizations.useOpenLibs is set.
_WITHHELD = ("string", "math", "io", "os", "debug", "package", "coroutine", "python", "require", "dofile", "loadfile")


def health(script: str, body: Json) -> tuple[str, str]:
    """Run ``script`` on an object and return health and message.

    Raises:
        lupa.LuaError: The script failed.
        TypeError: It returned something else than a table.
    """
    runtime = LuaRuntime(unpack_returned_tuples=True)
    scope = runtime.globals()
    for name in _WITHHELD:
        scope[name] = None
    # Methods of string values are found by their metatable, which Argo CD's interpreter does not have either.
    runtime.execute("getmetatable('').__index = nil")
    scope["obj"] = _to_lua(runtime, body)
    result: Any = runtime.execute(script)
    if lua_type(result) != "table":
        raise TypeError(f"the health script returned {result!r}, not a table")
    return str(result["status"]), str(result["message"])


def _to_lua(runtime: LuaRuntime, value: Any) -> Any:
    match value:
        case dict():
            return runtime.table_from({key: _to_lua(runtime, item) for key, item in value.items()})
        case list():
            return runtime.table_from([_to_lua(runtime, item) for item in value])
        case _:
            return value
