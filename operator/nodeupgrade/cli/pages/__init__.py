"""Pages to hand over: a rollout as HTML or Markdown."""
