#!/usr/bin/env python3
"""Prints the schema JSON of a commit file, for the seeds of scripts/fuzz.sh; fails without one."""

import json
import sys

for line in open(sys.argv[1], encoding="utf-8"):
    try:
        action = json.loads(line)
    except ValueError:
        continue
    if isinstance(action, dict) and "metaData" in action:
        print(action["metaData"]["schemaString"], end="")
        sys.exit()
sys.exit(1)
