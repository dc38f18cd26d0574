"""Workers that are actors of Ray, on this machine or on a cluster. Needs the extra ``ray``, imported when asked for."""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from motionkit.errors import MotionkitError
from motionkit_success.environments.workers import Order, Work, death, error_of

_STORE = 128 * 2**20  # bytes for answers on their way
_ADDRESS = "RAY_ADDRESS"
_AUTHENTICATION = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
_VARIABLES = (*_AUTHENTICATION, "RAY_USAGE_STATS_ENABLED")


class RayWorker:
    """A worker in an actor; see `motionkit_success.environments.workers.Worker`."""

    def __init__(self, actor: Any, number: int, workers: int) -> None:
        self._actor, self._number, self._workers = actor, number, workers
        self._open: Any = None

    def ask(self, question: str, *arguments: Any) -> None:
        """See `motionkit_success.environments.workers.Worker.ask`."""
        self._open = self._actor.answer.remote(question, arguments)

    def answer(self) -> Any:
        """See `motionkit_success.environments.workers.Worker.answer`."""
        import ray
        from ray.exceptions import RayError

        try:
            done, value = ray.get(self._open)
        except RayError as error:
            raise death(self._number, self._workers, _first_line(error)) from error
        if not done:
            raise error_of(value)
        return value

    def close(self) -> None:
        """See `motionkit_success.environments.workers.Worker.close`."""
        import ray
        from ray.exceptions import RayError

        if self._actor is None or not ray.is_initialized():
            return
        with suppress(RayError):
            ray.get(self._actor.answer.remote("close", ()), timeout=5)
        with suppress(RayError):
            ray.kill(self._actor)
        self._actor = None


def start_ray(orders: Sequence[Order]) -> tuple[list[RayWorker], Callable[[], None]]:
    """Start an actor for each order; returns them, and a function that ends Ray if it was started here.

    ``RAY_ADDRESS`` names a cluster to join; without it Ray is started on this machine and ended with the workers.
    """
    try:
        import ray
    except ImportError as error:
        raise MotionkitError(
            "--worker-backend ray needs Ray, which is not installed.",
            why=str(error), fix="pip install 'motionkit[ray]', or --worker-backend processes",
        ) from error  # fmt: skip
    release = _connect(len(orders))
    if (there := ray.cluster_resources().get("CPU", 0.0)) < len(orders):
        release()
        raise MotionkitError(
            f"{len(orders)} workers are asked for, and Ray has {there:g} CPUs.",
            why="an actor takes one; it would wait without an end.", fix=f"--workers {int(there)}, or a larger cluster",
        )  # fmt: skip
    make = ray.remote(Work).options(num_cpus=1, max_restarts=0, scheduling_strategy="SPREAD")
    return [RayWorker(make.remote(order), number, len(orders)) for number, order in enumerate(orders)], release


def _connect(workers: int) -> Callable[[], None]:
    import ray

    if ray.is_initialized():
        return lambda: None
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if os.environ.get(_ADDRESS):
        with _starting(f"Ray at {os.environ[_ADDRESS]}"):
            ray.init(**quiet)
        return _shutdown
    # Without a token Ray would write one to ~/.ray. Logs and sockets go into a temporary folder.
    before = {name: os.environ.get(name) for name in _VARIABLES}
    if not any(before[name] for name in _AUTHENTICATION):
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    folder = tempfile.mkdtemp(prefix="ray-")

    def release() -> None:
        _shutdown()
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})
        shutil.rmtree(folder, ignore_errors=True)

    try:
        with _starting("Ray"):
            ray.init(
                num_cpus=workers, object_store_memory=_STORE, include_dashboard=False,
                _node_ip_address="127.0.0.1", _temp_dir=folder, **quiet,
            )  # fmt: skip
    except BaseException:
        release()
        raise
    return release


def _shutdown() -> None:
    import ray

    ray.shutdown()


@contextmanager
def _starting(name: str) -> Iterator[None]:
    """Report why Ray does not start, and restore the handler of SIGTERM, which Ray replaces and a run saves by."""
    handler = signal.getsignal(signal.SIGTERM)
    logging.getLogger("ray").setLevel(logging.ERROR)  # its warnings concern clusters open to a network
    try:
        yield
    except (OSError, RuntimeError, ValueError) as error:
        raise MotionkitError(
            f"{name} does not start.", why=_first_line(error), fix="--worker-backend processes needs no Ray."
        ) from error
    finally:
        if handler is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__).rstrip(".")
