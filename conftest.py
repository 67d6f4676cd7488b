"""Load the lab plugin: it marks, drives, scores and reports labs."""

pytest_plugins = ["labkit.running.plugin"]
