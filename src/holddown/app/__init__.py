"""The verbs: ports in, result value out; none prints."""
