"""The world: one module per door, none knows another."""
