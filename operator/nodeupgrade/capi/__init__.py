"""A runtime extension of Cluster API: updates Machines in place by NodeUpgrades. Stateless."""
