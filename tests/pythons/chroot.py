"""A Debian in a folder: made by debootstrap, kept between runs, entered in namespaces of its own.

Its root is bind-mounted onto itself and pivoted to, as a process under plain chroot can make no
user namespace, which bubblewrap needs. Mounts and processes end with the command that runs there.

The machine's name resolution, certificates, proxies and pip configuration come along, read-only,
with the local folders and files which that configuration names.
"""

import configparser
import os
import re
import shutil
import subprocess
from pathlib import Path

PACKAGES = ("python3", "python3-venv", "make", "git", "bubblewrap", "ca-certificates", "procps")
BROWSER = ("chromium", "chromium-driver", "fonts-noto-color-emoji", "fonts-noto-cjk")
APT = (
    "apt-get -q -o APT::Update::Error-Mode=any -o Acquire::Check-Valid-Until=false "
    "-o Acquire::Retries=1 -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20 "
    "-o Dpkg::Options::=--force-confold -o Dpkg::Options::=--force-unsafe-io"
)
MAKING_SECONDS = 1200

# setpriv: whatever ends this process, the namespaces end, too.
UNSHARE = (
    "setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child",
    "--propagation", "private",
)  # fmt: skip
# Its arguments: the root, pairs of what to bind and where, "--", a command. The shell stays, as the
# first process of the namespace, to collect orphans.
ENTER = """
set -e
mount --bind "$1" "$1"
cd "$1"
shift
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
mount -t tmpfs -o mode=1777 tmpfs tmp
mount -t tmpfs -o mode=755 tmpfs etc/ssl/certs
cp -rL /etc/ssl/certs/. etc/ssl/certs 2>/dev/null || true
while [ "$1" != -- ]; do
    mount --bind "$1" ".$2"
    mount -o remount,bind,ro ".$2"
    shift 2
done
shift
pivot_root . mnt
cd /
umount -l /mnt
code=0
"$@" || code=$?
exit $code
"""
# The options of pip that name files, folders or addresses.
PIP_PATHS = {
    "find-links", "index-url", "extra-index-url", "constraint", "cert", "client-cert", "config-file"
}  # fmt: skip
# In a chroot, that of its root.
HOME = Path("/root")
PASSED_ON = re.compile(r"PIP_\w+|\w+_proxy|\w*(CERT|CA_BUNDLE|CAINFO)\w*", re.IGNORECASE)


class Unavailable(Exception):
    """A system cannot be tried here; the message is the reason."""


class Chroot:
    """A Debian system in a folder.

    Args:
        folder: where it is, or will be.
        log: the file to which output goes.
    """

    def __init__(self, folder: Path, log: Path) -> None:
        self.folder = folder
        self.log = log

    @property
    def is_whole(self) -> bool:
        """Whether there is one: it gets its name when it is finished."""
        return self.folder.is_dir()

    def make(self, mirror: str, code: str) -> None:
        """Make it anew, beside an old one until it is whole.

        Args:
            mirror: the address of an archive of Debian.
            code: the release's name, such as `trixie`.

        Raises:
            Unavailable: debootstrap failed.
        """
        half, old = (self.folder.with_name(self.folder.name + end) for end in (".half", ".old"))
        for folder in (half, old):
            shutil.rmtree(folder, ignore_errors=True)
        options = ["--variant=minbase", "--force-check-gpg", f"--include={','.join(PACKAGES)}"]
        command = ["debootstrap", *options, code, str(half), mirror]
        self._run([*UNSHARE, "--mount-proc", *command], dict(os.environ), "debootstrap")
        if self.folder.exists():
            self.folder.rename(old)
        half.rename(self.folder)
        shutil.rmtree(old, ignore_errors=True)

    def refresh(self, mirror: str, packages: tuple[str, ...]) -> None:
        """Bring its packages up to date, and install more.

        Raises:
            Unavailable: apt failed.
        """
        listed = self.folder / "etc/apt/sources.list"
        listed.write_text(f"deb {mirror} {self.code} main\n")
        install = f"{APT} -y install --no-install-recommends {' '.join((*PACKAGES, *packages))}"
        script = f"{APT} update && {APT} -y full-upgrade && {install} && {APT} clean"
        env = {**self._environment(), "DEBIAN_FRONTEND": "noninteractive"}
        self._run(self._entered(["sh", "-c", script]), env, "apt-get")

    @property
    def code(self) -> str:
        """The name of the release that it was made of."""
        return (self.folder / "etc/apt/sources.list").read_text().split()[2]

    @property
    def system(self) -> str:
        """Debian, and its version: `Debian 13`; `Debian sid` has none."""
        version = re.search(r'^VERSION_ID="?([\d.]+)', self._os_release, re.MULTILINE)
        return f"Debian {version[1] if version else self.code}"

    @property
    def _os_release(self) -> str:
        return (self.folder / "usr/lib/os-release").read_text("utf-8")

    @property
    def has_browser(self) -> bool:
        """Whether chromium and its driver are installed there."""
        return all(
            (self.folder / "usr/bin" / name).exists() for name in ("chromium", "chromedriver")
        )

    def call(self, script: str, **env: str) -> tuple[int, str]:
        """Run a shell script there, with CI=1; return its exit code and its output."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        command = self._entered(["bash", "-c", script])
        with self.log.open("w+", encoding="utf-8", errors="replace") as log:
            process = subprocess.Popen(
                command, env=self._environment() | env, stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            try:
                code = process.wait()
            finally:
                process.kill()
                process.wait()
        return code, self.log.read_text("utf-8", "replace")

    def _run(self, command: list[str], env: dict[str, str], name: str) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("wb") as log:
            try:
                done = subprocess.run(
                    command, env=env, stdin=subprocess.DEVNULL, stdout=log,
                    stderr=subprocess.STDOUT, timeout=MAKING_SECONDS, check=False,
                    start_new_session=True,
                ).returncode  # fmt: skip
            except subprocess.TimeoutExpired:
                raise Unavailable(f"{name} took more than {MAKING_SECONDS} s: {self.log}") from None
        if done != 0:
            lines = self.log.read_text("utf-8", "replace").strip().splitlines()
            raise Unavailable(f"{name} failed ({lines[-1] if lines else done}); see {self.log}")

    def _entered(self, command: list[str]) -> list[str]:
        pairs = []
        for source, target in machine_paths(dict(os.environ)).items():
            point = self.folder / target.relative_to("/")
            if point.is_symlink():
                point.unlink()
            if source.is_dir():
                point.mkdir(parents=True, exist_ok=True)
            else:
                point.parent.mkdir(parents=True, exist_ok=True)
                point.touch()
            pairs += [str(source), str(target)]
        return [*UNSHARE, "bash", "-c", ENTER, "enter", str(self.folder), *pairs, "--", *command]

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if PASSED_ON.fullmatch(name)}
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        return {**kept, "PATH": path, "HOME": str(HOME), "LANG": "C.UTF-8", "CI": "1"}


def machine_paths(env: dict[str, str]) -> dict[Path, Path]:
    """Return which files and folders of this machine come along, and under which path there.

    Args:
        env: the environment, for what its variables name.
    """
    home = Path(env.get("HOME", HOME))
    config = Path(env.get("XDG_CONFIG_HOME") or home / ".config")
    settings = {
        Path("/etc/pip.conf"): Path("/etc/pip.conf"),
        Path("/etc/xdg/pip"): Path("/etc/xdg/pip"),
        home / ".pip": HOME / ".pip",
        config / "pip": HOME / ".config/pip",
    }
    same = [Path("/etc/resolv.conf"), Path("/etc/hosts")]
    for name, value in env.items():
        if PASSED_ON.fullmatch(name) and not name.startswith("PIP_") and value[:1] == "/":
            same.append(Path(value))
    for source in settings:
        for path in (source, source / "pip.conf"):
            if path.is_file():
                same += named_by_pip(_options(path))
    same += named_by_pip(
        {name[4:]: value for name, value in env.items() if name.startswith("PIP_")}
    )
    paths = settings | {path: path for path in same}
    # A folder precedes what is in it. The certificates are copied: see ENTER.
    return {
        source: paths[source]
        for source in sorted(paths)
        if source.exists() and not source.is_relative_to("/etc/ssl/certs")
    }


def _options(path: Path) -> dict[str, str]:
    parser = configparser.RawConfigParser(strict=False)
    parser.read(path, encoding="utf-8")
    return {
        f"{section} {name}": text for section in parser for name, text in parser[section].items()
    }


def named_by_pip(options: dict[str, str]) -> list[Path]:
    """Return the local files and folders that options of pip name, as paths or as `file:`.

    Args:
        options: names, in the style of a variable or of a file, and values.
    """
    paths = []
    for name, text in options.items():
        if name.split()[-1].replace("_", "-").lower() in PIP_PATHS:
            words = [word.removeprefix("file://") for word in text.split()]
            paths += [Path(word) for word in words if word.startswith("/")]
    # An index leads to files beside it: simple/NAME/index.html has links to ../../FOLDER/FILE.
    return [path.parent if path.name == "simple" else path for path in paths]
