"""Prints the GIDs of the guest's device as JSON: {address: index}."""

import glob
import json
import os
import socket


def main():
    found = {}
    for path in glob.glob("/sys/class/infiniband/rxe0/ports/1/gids/*"):
        with open(path, encoding="ascii") as file:
            raw = bytes.fromhex(file.read().strip().replace(":", ""))
        if any(raw):
            text = (socket.inet_ntop(socket.AF_INET, raw[12:])
                    if raw.startswith(b"\0" * 10 + b"\xff\xff")
                    else socket.inet_ntop(socket.AF_INET6, raw))
            found[text] = int(os.path.basename(path))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
