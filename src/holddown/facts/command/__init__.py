"""Launch commands as people write them, shell lines, scripts, manifests and units, read into one shape."""
