"""The tensors of each model family, worked out from config.json: names, shapes, and how many of each."""
