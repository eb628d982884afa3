# SPDX-License-Identifier: Apache-2.0
"""Runs notebooks by papermill in kernels that may have been started before, and makes pages of them."""

from __future__ import annotations

import contextlib
import logging
import tempfile
from pathlib import Path

import nbformat
import papermill
from jupyter_client import AsyncKernelManager
from jupyter_core.utils import run_sync
from nbconvert import HTMLExporter
from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import NBClientEngine, papermill_engines
from papermill.iorw import load_notebook_node
from papermill.parameterize import parameterize_notebook

ENGINE = "heddle"
START_SECONDS = 600


class _WarmEngine(NBClientEngine):
    """Papermill's own engine, with a kernel that runs already."""

    kernels: list[AsyncKernelManager] = []

    @classmethod
    def execute_managed_notebook(cls, nb_man, kernel_name, **options):
        """Run the cells of a notebook in the kernel that was started longest ago, which ends with them."""
        kernel = cls.kernels.pop(0)
        client = PapermillNotebookClient(
            nb_man, km=kernel, kernel_name=kernel_name, startup_timeout=START_SECONDS, timeout=None
        )
        try:
            return client.execute()
        finally:
            run_sync(kernel.shutdown_kernel)()


papermill_engines.register(ENGINE, _WarmEngine)


class Runner:
    """Kernels and a converter, ready before there is anything to run. A kernel runs one notebook.

    Kernels listen on sockets below a temporary directory, so that no other user reaches them.
    """

    def __init__(self, sources: Path, *, show_input: bool = False) -> None:
        self._sources = sources
        self._started: list[AsyncKernelManager] = []
        self._sockets = tempfile.TemporaryDirectory(prefix="heddle-kernels-")
        self._exporter = HTMLExporter(exclude_input=not show_input)
        logging.getLogger("papermill").setLevel(logging.WARNING)

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        for kernel in self._started:
            with contextlib.suppress(RuntimeError):
                run_sync(kernel.shutdown_kernel)(now=True)
        self._sockets.cleanup()

    def prepare(self, names: list[str]) -> None:
        """Start a kernel for each notebook, and go through the rest of the work once, so that all of it is loaded."""
        for _name in names:
            self._start()
        for name in names[:1]:
            notebook = load_notebook_node(str(self._sources / f"{name}.ipynb"))
            self._exporter.from_notebook_node(parameterize_notebook(notebook, {"report_directory": ""}))

    def _start(self) -> AsyncKernelManager:
        # Each needs sockets of its own: without a path all use one name in the current directory.
        sockets = f"{self._sockets.name}/{len(self._started)}"
        kernel = AsyncKernelManager(kernel_name="python3", transport="ipc", ip=sockets)
        kernel.client_class = "jupyter_client.asynchronous.AsyncKernelClient"
        run_sync(kernel.start_kernel)(cwd=str(self._sources), extra_arguments=["--log-level=ERROR"])
        self._started.append(kernel)
        _WarmEngine.kernels.append(kernel)
        return kernel

    def run(self, name: str, executed: Path, parameters: dict[str, object]) -> tuple[Path, str]:
        """Run a notebook and write it and its page; return the page, and what a cell failed with, or nothing."""
        if not _WarmEngine.kernels:
            self._start()
        problem = ""
        try:
            papermill.execute_notebook(
                str(self._sources / f"{name}.ipynb"),
                str(executed),
                parameters=parameters,
                engine_name=ENGINE,
                progress_bar=False,
                cwd=str(self._sources),
            )
        except papermill.PapermillExecutionError as error:
            problem = f"cell {error.exec_count}: {error.ename}: {error.evalue}"
        page = executed.with_suffix(".html")
        # A notebook that failed is kept as far as it came, with the failure in it.
        text, _resources = self._exporter.from_notebook_node(nbformat.read(executed, as_version=4))
        page.write_text(text, encoding="utf-8")
        return page, problem
