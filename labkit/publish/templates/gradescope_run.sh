#!/usr/bin/env bash
# Runs once for each submission, as root. Whatever happens later, there is a result: a first one is
# written now, and the grader replaces it.
set -u
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
home=${AUTOGRADER:-/autograder}
mkdir -p "$home/results"
cat >"$home/results/results.json" <<'END'
{"score": 0, "output": "The autograder did not finish. Please tell your instructor; this says nothing about your work.", "stdout_visibility": "hidden", "tests": []}
END
# The submission runs as a user of its own, who must see neither tests nor names, and change nothing.
chmod 700 "$home/source" "$home/submission"
chmod 755 "$home/results"
chmod -f 600 "$home/submission_metadata.json"
cd "$home/source/course" || exit 1
exec "$home/python/bin/python" -I -B -m labkit.publish.gradescope @OPTIONS@ \
    --submission "$home/submission" --results "$home/results/results.json"
