"""Files and folders that systems and programs leave among a user's data, and that are never data."""

import re

_NAMES = frozenset(
    {
        '$recycle.bin',  # Windows.
        'desktop.ini',
        'ehthumbs.db',
        'recycler',
        'system volume information',
        'thumbs.db',
        '__macosx',  # macOS.
        'icon\r',
        'network trash folder',
        'temporary items',
        '#recycle',  # Network storage of Synology and QNAP.
        '#snapshot',
        '@eadir',
        '@recently-snapshot',
        '@recycle',
        '@tmp',
        '__pycache__',  # Python.
        'lost+found',  # Linux.
    }
)
# Hidden files, such as .DS_Store, ._photo.jpg and .ipynb_checkpoints; locks of Office; thumbnails and attributes of Synology.
_PATTERN = re.compile(r'\.|~\$|synofile_thumb_|.*@syno(eastream|resource)$', re.IGNORECASE)


def is_foreign(name: str) -> bool:
    """Whether a file or folder of this name, without its directory, is never data: what is in such a folder is not, either."""
    return name.lower() in _NAMES or _PATTERN.match(name) is not None
