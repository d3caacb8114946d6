"""Notices by HTTP: as plain JSON, as messages for Slack and what understands them, and as CloudEvents."""

from nodeupgrade.adapters.notifications.webhook import Webhooks

__all__ = ["Webhooks"]
