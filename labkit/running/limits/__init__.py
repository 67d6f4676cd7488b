"""How long a test may take: timers in this process, a watchdog beside it, and who minds them."""
