#!/usr/bin/env python3
"""Installation and packages: what `./dev install` and `./dev package` make is
used as its users would.

Prints a line for each test and ends with "N passed, N failed, N skipped".
--full builds all a second time, and tries the packages in clean root file
systems and in containers; it needs root.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

# pylint: disable=wrong-import-position
import clean_systems  # noqa: E402
import clean_up  # noqa: E402
from report import Report, Skip, check, run  # noqa: E402

LOOP = ["run", "--port", "loop", "--addr", "10.9.0.1/24", "--"]
PROGRAM = """
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
int main(void) {
  int devices = 0;
  struct ibv_device** list = ibv_get_device_list(&devices);
  printf("%d %s\\n", devices, devices ? ibv_get_device_name(list[0]) : "");
  ibv_free_device_list(list);
  rdma_destroy_event_channel(rdma_create_event_channel());
  return 0;
}
"""


def install(scratch):
    """Into a prefix of its own, and used from there."""
    prefix = scratch / "prefix"
    run([ROOT / "packaging/install.sh", prefix])
    command = prefix / "bin/urnic"
    said = run([command, "--version"])
    check(said.startswith("urnic "), said)
    check(f"OK    installation         {prefix}/lib/urnic/lib/" in
          run([command, "doctor"]), "doctor does not know the installation")
    said = run([command, *LOOP, "ibv_devinfo"])
    check("PORT_ACTIVE" in said, said)
    for name in ("share/man/man1/urnic.1", "share/doc/urnic/README.md",
                 "share/doc/urnic/bench/pictures/rate.svg",
                 "share/urnic/wireshark/urnic_rud.lua",
                 "share/bash-completion/completions/urnic"):
        check((prefix / name).is_file(), f"{name} is not there")


def install_again(scratch):
    """Over an older installation, and with DESTDIR."""
    old = scratch / "stage/opt/urnic/lib/urnic/lib/liburnic-rdmav1.so"
    old.parent.mkdir(parents=True)
    old.touch()
    run([ROOT / "packaging/install.sh", "/opt/urnic/"],
        env={**os.environ, "DESTDIR": str(scratch / "stage")})
    check(not old.exists(), "a plugin of the older installation is left")
    file = scratch / "stage/opt/urnic/share/pkgconfig/urnic.pc"
    said = file.read_text(encoding="utf8")
    check("prefix=/opt/urnic\n" in said, said)


def development(scratch):
    """A program that pkg-config's answers build, and that runs without the
    command."""
    prefix = scratch / "prefix"
    run([ROOT / "packaging/install.sh", prefix])
    env = {**os.environ, "PKG_CONFIG_PATH": str(prefix / "share/pkgconfig"),
           "XDG_RUNTIME_DIR": str(scratch)}

    def ask(what):
        return run(["pkg-config", what, "urnic"], env=env).split()

    (scratch / "program.c").write_text(PROGRAM, encoding="utf8")
    run(["gcc", "-Wall", "-o", scratch / "program", scratch / "program.c",
         *ask("--cflags"), *ask("--libs")])
    said = run([scratch / "program"], env={
        **env, "LD_PRELOAD": ask("--variable=preload")[0],
        "IBV_DRIVERS": ask("--variable=ibv_drivers")[0],
        "URNIC_PORTS": "loop|10.9.0.1/24"})
    check(said == "1 urnic0\n", said)

    # The registration cache, by the example that is installed with it.
    run(["gcc", "-Wall", "-o", scratch / "example",
         prefix / "share/doc/urnic/verbs/regcache/example.c",
         *run(["pkg-config", "--cflags", "--libs", "urnic-regcache"],
              env=env).split()])
    said = run([prefix / "bin/urnic", *LOOP, scratch / "example", "20"])
    check("hits " in said, said)

    # Direct verbs, the same.
    for name, words in (("example", "there they are"),
                        ("block_service", "block 3: 4096 bytes of d"),
                        ("write_set", "8 writes of 8192 bytes, then: all"),
                        ("allreduce", "all results are right: 4 ranks")):
        run(["gcc", "-Wall", "-o", scratch / name,
             prefix / f"share/doc/urnic/verbs/direct/{name}.c",
             "-lpthread",
             *run(["pkg-config", "--cflags", "--libs", "urnic-dv"],
                  env=env).split()])
        said = run([prefix / "bin/urnic", *LOOP, scratch / name])
        check(words in said, said)


def make_packages(folder, root=ROOT, **env):
    run([root / "packaging/make_packages.sh", folder],
        env={**os.environ, **env})
    packages = sorted(folder.glob("*.deb"))
    names = {path.name.split("_")[0] for path in packages}
    check(names == {"urnic", "urnic-dbgsym", "urnic-dev", "urnic-doc"}, names)
    return packages


def lint(packages):
    run(["lintian", "--allow-root", "--fail-on", "error,warning", "--info",
         *packages])


def dissector(scratch, packages):
    """The plugin is where the distribution's Wireshark looks for plugins."""
    if shutil.which("tshark") is None:
        raise Skip("tshark is not installed")
    for package in packages:
        run(["dpkg-deb", "-x", package, scratch])
    env = {**os.environ, "HOME": str(scratch)}
    folders = dict(line.split(":", 1) for line in
                   run(["tshark", "-G", "folders"], env=env).splitlines())
    folder = folders["Global Lua Plugins"].strip().lstrip("/")
    plugin = scratch / folder / "urnic_rud.lua"
    check(plugin.is_file(), f"{plugin} is not there")
    # There it would be loaded for every user; here, for one.
    ours = pathlib.Path(folders["Personal Lua Plugins"].strip())
    check(ours.is_relative_to(scratch), ours)
    ours.mkdir(parents=True)
    shutil.copy(plugin, ours)
    said = run(["tshark", "-G", "protocols"], env=env)
    check("\turnic_rud\n" in said, "tshark does not know urnic_rud")


def reproduce(scratch, packages):
    """All compiled once more, in another folder and without the cache, gives
    the same bytes."""
    copy = scratch / "another" / "place"
    copy.mkdir(parents=True)
    names = run(["git", "ls-files", "-z", "--cached", "--others",
                 "--exclude-standard"], cwd=ROOT)
    run(["cp", "-P", "--parents", "-t", copy,
         *(name for name in names.split("\0")
           if name and (ROOT / name).exists())],
        cwd=ROOT)
    with open(copy / ".bazelrc", "a", encoding="ascii") as settings:
        settings.write("build --disk_cache=\n")
    time = run(["git", "log", "-1", "--format=%ct"], cwd=ROOT).strip()
    try:
        run(["./dev", "build"], cwd=copy, timeout=3600)
        again = make_packages(scratch / "again", copy, SOURCE_DATE_EPOCH=time)
    finally:
        run(["bazel", "clean", "--expunge"], cwd=copy)
    for first, second in zip(packages, again):
        check(first.name == second.name and
              first.read_bytes() == second.read_bytes(),
              f"{first.name} differs")


def run_all(report, full):
    with tempfile.TemporaryDirectory(prefix="urnic-packages-") as name:
        scratch = pathlib.Path(name)
        scratch.chmod(0o755)  # another user's containers read it

        def place(what):
            folder = scratch / what
            folder.mkdir()
            return folder

        report.test("install/used-from-its-prefix", install, place("install"))
        report.test("install/again-and-with-destdir", install_again,
                    place("again"))
        report.test("install/pkg-config", development, place("development"))
        packages = report.test("packages/made", make_packages,
                               place("packages"))
        if packages:
            report.test("packages/lintian", lint, packages)
            report.test("packages/dissector", dissector, place("dissector"),
                        packages)
        if packages and full:
            clean_systems.run(report, ROOT, place("systems"), packages)
            report.test("packages/reproducible", reproduce, place("reproduce"),
                        packages)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--core", action="store_true",
                        help="what takes seconds; the default")
    parser.add_argument("--full", action="store_true", help="everything")
    options = parser.parse_args()
    clean_up.raise_on_signals()
    report = Report()
    try:
        run_all(report, options.full)
    finally:
        # The gate reads this line, also of a run that was interrupted.
        status = report.end()
    return status


if __name__ == "__main__":
    sys.exit(main())
