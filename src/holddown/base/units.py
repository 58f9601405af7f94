"""Sizes and durations as text. Values stay in bytes and seconds; GiB exists only here, when rendered."""

KIB = 1024
MIB = 1024**2
GIB = 1024**3

_SIZES = (("TiB", 1024**4), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB))


def size_text(size_bytes: int) -> str:
    """`1536` -> `1.5 KiB`. Binary units only: engines print GiB as "GB", we do not."""
    for unit, factor in _SIZES:
        if abs(size_bytes) >= factor:
            return f"{size_bytes / factor:.1f} {unit}"
    return f"{size_bytes} B"


def duration_text(seconds: float) -> str:
    """`0.0123` -> `12 ms`, `4.21` -> `4.2 s`, `75` -> `1 min 15 s`, `7300` -> `2 h 1 min`."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def count_text(count: int) -> str:
    """`134515008` -> `134.5 M`, in the decimal units that model cards use."""
    for unit, factor in (("T", 10**12), ("B", 10**9), ("M", 10**6), ("K", 10**3)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return str(count)
