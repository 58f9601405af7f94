"""Part of a stand-in for vLLM; see tests/fake_engine/README.md."""
