"""What drives the stand-in: cues, log lines, the worker processes, the word generator, the HTTP server."""
