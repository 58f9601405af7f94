"""The load client: processes that send requests when they are due and stamp every read."""
