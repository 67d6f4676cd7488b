"""Set up `.venv` for a group of requirements: `python3 -I labkit/student/bootstrap.py core`.

It runs before anything is installed, on any Python that the machine has, so it uses only old syntax
and the standard library. A finished set-up leaves a stamp named after the
lock file's content; a set-up that was killed leaves a mark, and the next call begins again.

`.venv` has the path of its folder in it. If the folder has been copied or moved, the next call
changes these paths, or else the copy would run the code of the original.
"""

import glob
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys

OLDEST = (3, 11)
NEWEST_KNOWN = 14
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
VENV = os.path.join(ROOT, ".venv")
PYTHON = os.path.join(VENV, "bin", "python")
UNFINISHED = os.path.join(VENV, ".unfinished")
PATH_FILE = "mini_vllm_labs.pth"
# The first lines of a script that pip installed, in either of its two forms.
HEADER = re.compile(rb"#!(/bin/sh\n'''exec' )?.*/\.venv/bin/python.*\n(?(1)' '''\n)")


def main(group):
    """Make sure that `requirements/<group>.txt` is installed; return the exit code."""
    if sys.version_info < OLDEST:
        return _use_newer_python()
    lock = os.path.join(ROOT, "requirements", group + ".txt")
    with open(lock, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()[:16]
    stamp = os.path.join(VENV, ".installed-{}-{}".format(group, digest))
    if os.path.exists(stamp) and os.path.exists(PYTHON) and not _is_of_another_folder():
        return 0
    with _set_up_lock():
        if _is_of_another_folder():
            _adopt()
        if os.path.exists(stamp) and os.path.exists(PYTHON):
            return 0
        return _install(lock, stamp)


def _use_newer_python():
    for minor in range(NEWEST_KNOWN, OLDEST[1] - 1, -1):
        newer = shutil.which("python3.{}".format(minor))
        if newer and _is_new_enough(newer):
            return subprocess.call([newer, "-I", *sys.argv])
    have = "{}.{}".format(*sys.version_info[:2])
    print("This course needs Python 3.11 or newer; {} is {}.".format(sys.executable, have))
    print("Install a newer one (macOS: brew install python; Debian: apt install python3) and run")
    print("the same command again, or name it: make PYTHON=/path/to/python3.12 ...")
    return 1


def _is_new_enough(python):
    """Run it: a version manager may have put a name on the PATH that is not a Python."""
    check = "import sys; sys.exit(sys.version_info < {})".format(OLDEST)
    return subprocess.call([python, "-c", check], stderr=subprocess.DEVNULL) == 0


def _set_up_lock():
    """Lock, so that `make -j` and two terminals do not set up at the same time."""
    import fcntl

    folder = os.path.join(ROOT, ".labkit")
    os.makedirs(folder, exist_ok=True)
    file = open(os.path.join(folder, "set-up.lock"), "w")
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


def _install(lock, stamp):
    if os.path.exists(UNFINISHED) or not os.path.exists(PYTHON):
        shutil.rmtree(VENV, ignore_errors=True)
        if not _has_venv():
            return 1
        print("Setting up .venv. This happens once and takes about half a minute.", flush=True)
        os.makedirs(VENV)
        _touch(UNFINISHED)
        done = subprocess.call([sys.executable, "-I", "-m", "venv", VENV])
        if done != 0:
            return done
    _touch(UNFINISHED)
    name = os.path.relpath(lock, ROOT)
    print("Installing {} ...".format(name), flush=True)
    pip = [PYTHON, "-I", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    done = subprocess.call([*pip, "--require-hashes", "-r", lock])
    if done != 0:
        print("Installing {} failed, see above. Are you online?".format(name))
        print("Run the same command to try again.")
        return done
    _write_path_file()
    os.remove(UNFINISHED)
    _touch(stamp)
    return 0


def _has_venv():
    check = [sys.executable, "-I", "-c", "import ensurepip, venv"]
    if subprocess.call(check, stderr=subprocess.DEVNULL) == 0:
        return True
    version = "{}.{}".format(*sys.version_info[:2])
    print("This Python cannot make virtual environments: its venv module is not installed.")
    print("On Debian and Ubuntu: apt install python{}-venv".format(version))
    print("Then run the same command again.")
    return False


def _is_of_another_folder():
    """Whether `.venv` was set up in another folder: its path file names that folder."""
    pattern = os.path.join(glob.escape(VENV), "lib", "python3*", "site-packages", PATH_FILE)
    for path in glob.glob(pattern):
        with open(path) as file:
            if file.read() != _path_line():
                return True
    return False


def _adopt():
    """Change the paths in a `.venv` from another folder, or remove it if that is not possible."""
    if os.path.islink(VENV):
        print("The .venv here is a link to another folder's, so this folder gets one of its own.")
        os.remove(VENV)
        return
    print(
        "This folder was copied or moved, so .venv is changed to run this folder's code.",
        flush=True,
    )
    try:
        # Python may be another version here, if the folder was moved to another machine.
        adopted = os.path.exists(_path_file()) and _write_scripts()
    except (OSError, subprocess.CalledProcessError):
        adopted = False
    if adopted:
        _write_path_file()
    else:
        shutil.rmtree(VENV, ignore_errors=True)


def _write_scripts():
    """Write this folder's path into `.venv/bin`; return whether that was possible."""
    # It writes `activate` and `pyvenv.cfg`.
    venv = [PYTHON, "-I", "-m", "venv", "--without-pip", VENV]
    if subprocess.call(venv, stderr=subprocess.DEVNULL) != 0:
        return False
    header = "#!/bin/sh\n'''exec' {} \"$0\" \"$@\"\n' '''\n".format(shlex.quote(PYTHON))
    for entry in os.scandir(os.path.dirname(PYTHON)):
        if entry.is_file(follow_symlinks=False):
            with open(entry.path, "rb") as file:
                script = file.read()
            old = HEADER.match(script)
            if old:
                with open(entry.path, "wb") as file:
                    file.write(os.fsencode(header) + script[old.end() :])
    return True


def _path_file():
    query = "import sysconfig; print(sysconfig.get_path('purelib'))"
    folder = subprocess.check_output([PYTHON, "-I", "-c", query]).decode().strip()
    return os.path.join(folder, PATH_FILE)


def _path_line():
    # `site` would decode a plain path in the locale's encoding, which may lack umlauts.
    return "import sys; sys.path.append({})\n".format(ascii(ROOT))


def _write_path_file():
    """Make the repository importable from anywhere inside the environment."""
    with open(_path_file(), "w") as file:
        file.write(_path_line())


def _touch(path):
    with open(path, "w"):
        pass


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1]))
    except KeyboardInterrupt:
        sys.exit(130)
