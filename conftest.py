"""Load the lab plugins: one runs, scores and reports labs, the other remembers scores."""

pytest_plugins = ["labkit.running.plugin", "labkit.student.plugin"]
