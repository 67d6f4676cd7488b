"""How soon a bench is ready, and how long a run takes.

A warm run is one for which an interpreter is waiting. On an idle machine:
`PYTHONPATH=tests/server .venv/bin/python tests/site/measure.py build/site`.
"""

import sys
import time
from pathlib import Path

from bench_page import Bench, serving
from browser import open_browser
from course_code import REFERENCES

RUNS = 5
# In which an interpreter has begun.
PAUSE_SECONDS = 10


def main():
    """Print the figures."""
    with open_browser() as driver, serving(Path(sys.argv[1])) as server:
        began = time.perf_counter()
        bench = Bench(driver, server.url, "03")
        bench.write(REFERENCES["03"])
        bench.until("$('#bench .status').textContent === 'Python is ready.'")
        print(f"first bench ready: {time.perf_counter() - began:.1f} s")
        for _ in range(RUNS):
            time.sleep(PAUSE_SECONDS)
            began = time.perf_counter()
            bench.run()
            print(f"warm run of lab 03: {time.perf_counter() - began:.2f} s")
        began = time.perf_counter()
        bench.run()
        print(f"the next run, at once: {time.perf_counter() - began:.2f} s")


if __name__ == "__main__":
    main()
