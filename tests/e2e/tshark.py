"""What tshark reads in a file of frames."""

import subprocess

import suite


def fields(path, chosen, *names):
    """The fields of each frame that it would show for `chosen`."""
    options = [word for name in names for word in ("-e", name)]
    done = subprocess.run(["tshark", "-r", path, "-Y", chosen, "-T", "fields",
                           *options], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        raise suite.Failure(f"tshark: {done.stderr}")
    return [line.split("\t") for line in done.stdout.splitlines()]
