#!/usr/bin/env bash
# Runs once, as root, while Gradescope builds the image: a Python that is new enough, and two packages.
set -euo pipefail
cd /
home=${AUTOGRADER:-/autograder}

new_enough() { command -v "$1" >/dev/null && "$1" -I -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))'; }
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
"$python" -I -m venv "$home/python"
"$home/python/bin/python" -I -m pip install -q --disable-pip-version-check --require-hashes \
    -r "$home/source/course/requirements.txt"
# So that the grader is imported from there, wherever it starts.
for site in "$home"/python/lib/python*/site-packages; do echo "$home/source/course" >"$site/course.pth"; done
