"""Clusters that kubeadm made, upgraded by NodeUpgrades beside what else people do with kubeadm.

``python -m e2e.kubeadm`` runs the rows and prints the table; ``docs/measured/kubeadm.jsonl`` is its last result.
"""
