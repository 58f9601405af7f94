"""Variables of the stand-in."""


class EnvBool:
    def __init__(self, default: bool) -> None:
        self.default = default


class Envs:
    SGLANG_LOG_MS = EnvBool(False)
