"""Words that every stage shares: units, evidence, findings, errors."""
