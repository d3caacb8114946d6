"""The contexts of a kubeconfig are those of all its files, each once; what is none is passed over."""

import json
from pathlib import Path

import pytest

from nodeupgrade.cluster.kube_api import NoClusterError
from nodeupgrade.cluster.kubeconfig import context_names


def written(path: Path, contexts: object) -> Path:
    path.write_text(json.dumps({"contexts": contexts}))
    return path


def test_contexts_of_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = written(tmp_path / "a", [{"name": "prod-1"}, {"name": 7}, {}, "odd", {"name": "prod-2"}])
    second = written(tmp_path / "b", [{"name": "prod-2"}, {"name": "dev"}])
    both = f"{first}:{tmp_path / 'absent'}:{second}:{written(tmp_path / 'c', None)}"
    monkeypatch.setenv("KUBECONFIG", both)
    assert context_names(Path(both)) == context_names(None) == ("prod-1", "prod-2", "dev")
    assert context_names(second) == ("prod-2", "dev")
    with pytest.raises(NoClusterError, match=r"cannot use .*absent because no such file"):
        context_names(tmp_path / "absent")
