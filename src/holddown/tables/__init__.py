"""What we know and cannot ask: rows with their sources."""
