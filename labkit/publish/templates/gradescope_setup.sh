#!/usr/bin/env bash
# Runs once, as root, while Gradescope builds the image: a Python that is new enough, and two packages.
set -euo pipefail
home=${AUTOGRADER:-/autograder}

new_enough() { command -v "$1" >/dev/null && "$1" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))'; }
for python in python3 python3.14 python3.13 python3.12 python3.11 none; do
    new_enough "$python" && break
done
if [ "$python" = none ]; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -q
    apt-get install -qy --no-install-recommends python3 python3-venv
    python=python3
    if ! new_enough python3; then
        apt-get install -qy --no-install-recommends python3.11 python3.11-venv
        python=python3.11
    fi
fi
# Not under source/, which only root may enter when submissions run.
"$python" -m venv "$home/python"
"$home/python/bin/python" -m pip install -q --disable-pip-version-check --require-hashes \
    -r "$home/source/course/requirements.txt"
