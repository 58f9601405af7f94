"""How positions are stretched beyond those a model was trained on, in a person's words."""


def rope_text(kind: str, factor: object, original_length: object) -> str:
    """`yarn, factor 40, original length 4096`, without what is not said."""
    words = [kind]
    if isinstance(factor, int | float):
        words.append(f"factor {factor:g}")
    if isinstance(original_length, int) and original_length:
        words.append(f"original length {original_length}")
    return ", ".join(words)
