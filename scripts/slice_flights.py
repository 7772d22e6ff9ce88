#!/usr/bin/env python3
"""Make examples/data from the full nycflights13 data (CC0).

Usage: scripts/slice_flights.py FULL_DATA_FOLDER [examples/data]

The small tables are copied whole; of the flights only January 2013 is kept, so that the
folder stays below 3 MB. The output depends on the input alone: no time stamps in the gzip
headers.
"""

import gzip
import pathlib
import shutil
import sys

LIMIT_BYTES = 3_000_000
WHOLE = ["airlines.csv", "airports.csv", "planes.csv"]


def store(path: pathlib.Path, lines: list[bytes]) -> None:
    with open(path, "wb") as raw:
        with gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=9, mtime=0) as out:
            out.writelines(lines)


def main() -> int:
    if len(sys.argv) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    source = pathlib.Path(sys.argv[1])
    default = pathlib.Path(__file__).resolve().parent.parent / "examples" / "data"
    target = pathlib.Path(sys.argv[2]) if len(sys.argv) == 3 else default
    target.mkdir(parents=True, exist_ok=True)

    for name in WHOLE:
        shutil.copyfile(source / name, target / name)
    with gzip.open(source / "weather.csv.gz", "rb") as weather:
        store(target / "weather.csv.gz", weather.readlines())
    with gzip.open(source / "flights.csv.gz", "rb") as flights:
        header = flights.readline()
        january = [line for line in flights if line.startswith(b"2013,1,")]
    store(target / "flights.csv.gz", [header, *january])

    data = [target / name for name in [*WHOLE, "weather.csv.gz", "flights.csv.gz"]]
    total = sum(path.stat().st_size for path in data)
    print(f"{len(january)} flights, {total} bytes in {target}")
    if total > LIMIT_BYTES:
        print(f"larger than {LIMIT_BYTES} bytes: keep fewer flights", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
