"""The count of what passed and failed, alone on a line or added up over several scripts.

scripts/test.sh names a file in TARNDB_TALLY; each script adds its counts there, and one line
for all of them is printed at the end. Without it a script prints its own line.
"""

import os


def report(name, passed, failed):
    """Tells the counts of one script; returns its exit code."""
    tally = os.environ.get("TARNDB_TALLY")
    if tally:
        with open(tally, "a") as file:
            file.write(f"{passed} {failed} {name}\n")
        print(f"{name}: {passed} passed, {failed} failed.", flush=True)
    else:
        print(f"{passed} passed, {failed} failed", flush=True)
    return 1 if failed else 0
