"""One adapter per engine: Plan -> argv and environment."""
