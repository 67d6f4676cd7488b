"""Load the lab plugins."""

pytest_plugins = ["labkit.running.plugin", "labkit.student.score_keeper"]
