"""Where a script's databases lie: temporary folders, or below a URL that the caller gives."""

import shutil
import tempfile
import uuid
from pathlib import Path


class Place:
    """A place for one database; `path` is its folder or URL."""

    def __init__(self, name, base=""):
        if base:
            self.folder, self.path = None, f"{base.rstrip('/')}/{name}-{uuid.uuid4()}"
        else:
            self.folder = Path(tempfile.mkdtemp(prefix=f"tarndb-{name}-"))
            self.path = str(self.folder / "db")

    def remove(self):
        """Removes a folder; what lies in a bucket of the caller's is the caller's."""
        if self.folder:
            shutil.rmtree(self.folder)

    def __str__(self):
        return self.path
