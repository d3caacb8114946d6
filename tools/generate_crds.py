"""Generate the CustomResourceDefinitions from ``nodeupgrade.api``, with and without CEL rules.

Run ``python -m tools.generate_crds`` after changing the API; ``--check`` only reports whether the files are up to date.
"""

from typing import Any

import yaml

from nodeupgrade.api.crds import Kind, definition
from nodeupgrade.api.json import Json
from nodeupgrade.api.printer_columns import KINDS
from tools.generated import CHECKOUT, Wanted, main

CRDS = CHECKOUT / "crds"
WIDTH = 120
SHORT = 100

HINT = "Generated from operator/nodeupgrade/api; to change it: python -m tools.generate_crds"
WITHOUT_CEL = "For API servers 1.16 to 1.24, which know no rules (CEL): the control plane alone enforces them."


class Writer(yaml.SafeDumper):
    """Writes readable YAML: small objects on one line, long texts folded."""

    def ignore_aliases(self, data: Any) -> bool:
        """Write repeated values in full, without anchors."""
        del data
        return True

    def represent_json(self, data: Json) -> yaml.MappingNode:
        """Write an object of a few plain values on one line."""
        node = self.represent_dict(data.items())
        node.flow_style = len(str(data)) < SHORT and all(_is_plain(value) for value in data.values())
        return node

    def represent_text(self, data: str) -> yaml.ScalarNode:
        """Fold text that does not fit on a line."""
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=">" if len(data) > SHORT - 20 else None)


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(item, str) for item in value)
    return not isinstance(value, dict) or not value


Writer.add_representer(dict, Writer.represent_json)
Writer.add_representer(str, Writer.represent_text)
Writer.add_representer(
    list,
    lambda writer, data: writer.represent_sequence(
        "tag:yaml.org,2002:seq", data, flow_style=all(isinstance(item, str) for item in data)
    ),
)


def written(kind: Kind, *, cel: bool) -> str:
    """Return one manifest as text."""
    comment = (*kind.comment, HINT) if cel else (*kind.comment, WITHOUT_CEL, HINT)
    body = yaml.dump(definition(kind, cel=cel), Dumper=Writer, sort_keys=False, width=WIDTH, allow_unicode=True)
    return "".join(f"# {line}\n" for line in comment) + body


def wanted() -> Wanted:
    """Return the content of every generated file by path."""
    folders = {True: CRDS, False: CRDS / "without-cel"}
    return {folder / f"{kind.plural}.yaml": written(kind, cel=cel) for cel, folder in folders.items() for kind in KINDS}


if __name__ == "__main__":
    main("tools.generate_crds", __doc__, wanted)
