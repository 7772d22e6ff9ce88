"""`name=value` arguments of the scripts, each with a default that gives its type."""

import sys


def arguments(**defaults):
    """The options of this run; an unknown name or a malformed value ends it with a message."""
    options = dict(defaults)
    for text in sys.argv[1:]:
        name, separator, value = text.partition("=")
        if not separator or name not in defaults:
            raise SystemExit(f"not an option: {text} (known: {', '.join(f'{k}={v}' for k, v in defaults.items())})")
        try:
            options[name] = type(defaults[name])(value)
        except ValueError:
            raise SystemExit(f"not a value for {name}: {value}") from None
    return options
