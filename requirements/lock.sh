# Write the lock files: exact versions with hashes for every platform, and no addresses.
set -eu
cd "$(dirname "$0")/.."
compile() {
    UV_PYTHON_DOWNLOADS=never uv pip compile pyproject.toml --extra labs --universal --python-version 3.11 \
        --generate-hashes --no-header --no-annotate --quiet "$@"
}
compile -o requirements/core.txt
for group in tokenizers serve cohort watch site oracles dev; do
    compile --extra "$group" -c requirements/core.txt -o "requirements/$group.txt"
done
