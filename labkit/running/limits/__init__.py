"""Time limits of tests: timers in this process, a watchdog beside it, their use in a session."""
