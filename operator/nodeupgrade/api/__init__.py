"""The API objects NodeUpgrade and NodeUpgradeTask: fields, reading, validation, writing, and reported reasons."""
