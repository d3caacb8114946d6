"""What a runtime contributes to the rescue script."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RescueFragment:
    """The runtime's part of the script: how to list containers and restore stored hashes without this program."""

    restores: bool  # whether there is any hash to restore
    # plain ``sh`` that defines the functions and variables below; it may write below ``$answers``, and ends with a
    # newline. - ``can_ask``: succeeds if the node has the tools that the others need; ``$asks_with`` names them. -
    # ``listing``: writes what the runtime serves to ``$answers/body``, with the id of every running container; fails if
    # the runtime does not answer. - ``restore_hashes``: restores every hash; if it fails, ``$trouble`` says why. It may
    # stop the runtime, and then starts it again. Must be idempotent. - ``reinstate``, if the runtime remembers ends: as
    # ContainerRuntime.reinstate; fails if nothing was done. - ``serves_new_hashes``: succeeds if any container of the
    # last listing has its new hash.
    text: str
