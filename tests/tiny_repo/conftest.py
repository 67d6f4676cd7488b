"""Load the lab plugin."""

pytest_plugins = ["labkit.running.plugin"]
