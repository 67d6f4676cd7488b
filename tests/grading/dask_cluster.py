"""A Dask cluster of processes on this machine: a scheduler, and workers that can be killed."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from walled import give_up

ROOT = Path(__file__).resolve().parents[2]
# A worker that is started anew need not import Dask anew.
QUICK = {"DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD": "forkserver"}


def needs_dask():
    """Return Dask; skip a test where it is missing, or fail it where nothing may be: in CI."""
    try:
        import distributed
    except ImportError:
        give_up("Dask is not installed: pip install -r requirements/cohort.txt")
    return distributed


class Cluster:
    """Processes of a cluster.

    Attributes:
        address: of the scheduler.
        scheduler: its process.
        workers: their processes, those of the nannies, which start what is killed anew.
    """

    def __init__(self, folder):
        self._folder = folder
        self.scheduler = self._start(
            "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"
        )
        self.address = self._told(self.scheduler, "Scheduler at:").split()[-1]
        self.workers = []

    def add_worker(self, *, path=ROOT, threads=1):
        """Start a worker whose labkit is at `path`, and wait for it."""
        worker = self._start(
            "worker", self.address, "--nthreads", str(threads), "--no-dashboard",
            "--local-directory", str(self._folder), path=path,
        )  # fmt: skip
        self.workers.append(worker)
        self._told(worker, "Registered to:")

    def stop(self):
        """End everything."""
        for process in [*self.workers, self.scheduler]:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    self.lose(process)

    def lose(self, process):
        """Kill a process and all that it has started, as if its machine were gone."""
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def _start(self, verb, *args, path=ROOT):
        return subprocess.Popen(
            [sys.executable, "-m", "dask", verb, *args],
            cwd=self._folder,
            env={**os.environ, **QUICK, "PYTHONPATH": str(path)},
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def _told(self, process, words):
        seen = []
        for line in process.stderr:
            seen.append(line)
            if words in line:
                # A full pipe would stop it.
                Thread(target=process.stderr.read, daemon=True).start()
                return line
        raise AssertionError("".join(seen))


@contextmanager
def cluster(folder, workers=2):
    """Yield a cluster; it is gone afterwards."""
    needs_dask()
    found = Cluster(folder)
    try:
        for _ in range(workers):
            found.add_worker()
        yield found
    finally:
        found.stop()
