"""Is it right: what to ask of a deployment, and how to judge what it answers."""
