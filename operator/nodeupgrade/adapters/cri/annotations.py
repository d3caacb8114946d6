"""The annotations in which kubelets store a container's hashes, wherever a runtime keeps them."""

import re

HASH_KEY = "io.kubernetes.container.hash"
HASH_WITHOUT_RESOURCES_KEY = "io.kubernetes.container.hashWithoutResources"
# strconv.FormatUint(hash, 16); no kubelet writes a value of any other form.
HASH = re.compile(r"[0-9a-f]{1,16}")
