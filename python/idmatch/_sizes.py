"""Sizes as text for people."""

_FACTORS = {"T": 10**12, "G": 10**9, "M": 10**6, "k": 10**3}


def show_size(size: int) -> str:
    """Three digits and a factor of 1,000: "1.23G"."""
    for suffix, factor in _FACTORS.items():
        if size >= factor:
            return f"{size / factor:.3g}{suffix}"
    return str(size)
