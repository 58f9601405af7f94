"""What `fetch` brought."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FetchedModel:
    """path: the Hugging Face directory. gguf_path: the file it was made from. licence: SPDX name. new: made just now.

    origin: the package it came out of, with its version.
    """

    name: str
    path: str
    gguf_path: str
    licence: str
    origin: str
    new: bool
