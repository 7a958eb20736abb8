"""Clean root file systems of Debian suites, made by mmdebstrap from the mirror
that this machine itself uses, with packaging/Containerfile carried out on top.

Standard library only.
"""

import glob
import json
import pathlib
import re
import shlex
import subprocess

from report import Skip

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


class Recipe:
    """What a Containerfile says. One instruction a line, as ours is."""

    def __init__(self, path):
        self.steps = []  # ("COPY" or "RUN", its text)
        self.user, self.entrypoint, self.command = 0, [], []
        text = pathlib.Path(path).read_text(encoding="utf8")
        for line in text.splitlines():
            word, _, rest = line.partition(" ")
            if word in ("COPY", "RUN"):
                self.steps.append((word, rest))
            elif word == "USER":
                self.user = int(rest.split(":")[0])
            elif word == "ENTRYPOINT":
                self.entrypoint = json.loads(rest)
            elif word == "CMD":
                self.command = json.loads(rest)
            elif line and word not in ("#", "FROM"):
                raise ValueError(f"{path}: no such instruction here: {line}")

    def hooks(self, folder):
        """mmdebstrap's options that carry out the steps; `folder` is the
        context of the build."""
        for word, rest in self.steps:
            if word == "RUN":
                command = 'chroot "$1" sh -ec ' + shlex.quote(rest)
            else:
                pattern, target = rest.split()
                names = sorted(glob.glob(str(folder / pattern)))
                command = shlex.join(["copy-in", *names, target])
            yield f"--customize-hook={command}"


def mirror():
    """Where this machine gets Debian's packages from."""
    listed = subprocess.run(
        ["apt-get", "indextargets", "--format",
         "$(ORIGIN)|$(LABEL)|$(REPO_URI)", "Created-By: Packages"],
        check=True, capture_output=True, text=True).stdout
    found = re.search(r"^Debian\|Debian\|(\S+)$", listed, re.MULTILINE)
    if not found:
        raise Skip("apt is not configured with a mirror of Debian")
    return found.group(1)


def make(suite, root, recipe, folder, packages):
    """A root file system of the suite in `root`, with the recipe's steps, and
    then these packages installed by apt with what they depend on. Raises
    CalledProcessError with apt's words in `stderr`."""
    install = ('chroot "$1" sh -ec "apt-get update && apt-get install -y '
               '--no-install-recommends /srv/*.deb"')
    # In its own namespaces, so that its mounts and processes are gone when it
    # ends, in whatever way.
    subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "--kill-child",
         "--mount-proc", "mmdebstrap", "--quiet", "--mode=root",
         "--variant=apt",
         # A mirror may be an old copy.
         '--aptopt=Acquire::Check-Valid-Until "false"',
         *recipe.hooks(folder),
         "--customize-hook=" + shlex.join(["copy-in", *map(str, packages),
                                           "/srv"]),
         f"--customize-hook={install}",
         suite, root, f"deb [signed-by={KEYRING}] {mirror()} {suite} main"],
        check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True, timeout=1800)
