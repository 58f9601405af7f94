"""Why: plans, findings and records as text a person reads."""
