"""A process that imports once what many kernels need, and becomes the kernel of each that asks.

`python warm_child.py ROOT…` imports the kernel and the modules ROOT. Then each line of JSON on its
standard input asks for a kernel: a child is forked, before any operation of a numerical library has
run here, because its threads would not survive the fork. The answer is the child's process number.

A chapter must find nothing that a kernel of its own would not have: what ROOT brought is hidden
from it until it imports ROOT itself, and `held` says whether it ever did.

Run as a file, never imported: a kernel's record of the modules of this project must not name it.
"""

import builtins
import contextlib
import ctypes
import gc
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import signal
import sys
import traceback
import types
import warnings
from pathlib import Path


class Held(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Hides modules that are loaded until somebody imports them.

    held: the packages that nobody has imported yet. Others of `roots` came with all their modules.
    """

    def __init__(self, roots):
        self.held = set(roots)
        self.modules = {name: sys.modules.pop(name) for name in [*sys.modules] if self._of(name)}
        self.specs = {name: module.__spec__ for name, module in self.modules.items()}

    def _of(self, name):
        return name.partition(".")[0] in self.held

    def find_spec(self, name, path=None, target=None):
        if name not in self.held:
            return None
        self.held.discard(name)
        for other in [*self.modules]:
            if other.startswith(f"{name}."):
                sys.modules[other] = self.modules.pop(other)
        packaged = hasattr(self.modules[name], "__path__")
        return importlib.machinery.ModuleSpec(name, self, is_package=packaged)

    def create_module(self, spec):
        return self.modules[spec.name]

    def exec_module(self, module):
        """It has run already; what the import machinery has written over comes back."""
        del self.modules[module.__name__]
        module.__spec__ = self.specs[module.__name__]
        module.__loader__ = module.__spec__.loader
        if not self.modules:
            sys.meta_path.remove(self)


class Now:
    """What a library that is imported here keeps as sys.stdout or sys.stderr: the one of later."""

    def __init__(self, name, here):
        self._name, self._here = name, here

    def __getattr__(self, attribute):
        now = getattr(sys, self._name)
        return getattr(self._here if now is self else now, attribute)

    def close(self):
        """A handler that a new configuration of logging closes would close what is not its own."""


def import_as_in_kernel(roots):
    """Import with what tells libraries that they are in a kernel."""
    own = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = Now("stdout", own[0]), Now("stderr", own[1])
    sys.ps1, sys.ps2, sys.ps3 = "In : ", "...: ", "Out: "
    builtins.get_ipython = lambda: None
    try:
        for root in roots:
            importlib.import_module(root)
    finally:
        sys.stdout, sys.stderr = own
        del builtins.get_ipython, sys.ps1, sys.ps2, sys.ps3


def without_debugger():
    """Kernels import a debugger for a quarter of a second each, and nobody debugs a build."""
    sys.modules["debugpy"] = None  # cannot be imported: what asks for it does without from now on
    importlib.import_module("ipykernel.debugger")
    del sys.modules["debugpy"]


def main(roots):
    if sys.path and Path(sys.path[0]).resolve() == Path(__file__).resolve().parent:
        del sys.path[0]  # as in a kernel, whose first place is the chapter's folder
    die_with_parent()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print on import is no answer
    gc.disable()  # almost nothing of what is imported is garbage, and to look takes a fifth of it
    from ipykernel import kernelapp

    without_debugger()
    import_as_in_kernel(roots)
    gc.freeze()  # what the children share stays where it is
    say(answers, {"ready": True})
    for line in sys.stdin:
        request = json.loads(line)
        if "release" in request:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(request["release"], 0)
            say(answers, {})
            continue
        here = os.getpid()
        with warnings.catch_warnings():
            # Python warns of threads: those of a linear algebra library, which stops them for this.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            try:
                answers.close()
                become_kernel(kernelapp, request, roots, here)
            except Exception:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(0)  # no library's own way out: it would wait for the parent's threads
        say(answers, {"pid": child})


def say(answers, content):
    answers.write(json.dumps(content) + "\n")
    answers.flush()


def become_kernel(kernelapp, request, roots, parent):
    os.setsid()
    die_with_parent()
    if os.getppid() != parent:  # it died before this was asked for
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, path, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, request["log"], os.O_WRONLY | os.O_APPEND),
        (2, request["log"], os.O_WRONLY | os.O_APPEND),
    ):
        opened = os.open(path, flags)
        os.dup2(opened, number)
        os.close(opened)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    if "numpy.random" in sys.modules:  # as in a process of its own; Python's own does it by itself
        sys.modules["numpy.random"].seed()
    if roots:
        sys.meta_path.insert(0, Held(roots))
    gc.enable()
    arguments = [*request["arguments"], f"--IPKernelApp.parent_handle={parent}"]
    # This file is no module of the chapter's: the kernel's own launcher is in its place.
    launcher = types.ModuleType("__main__")
    launcher.__file__ = importlib.util.find_spec("ipykernel_launcher").origin
    for name in ("__main__", "__mp_main__"):  # the second is multiprocessing's name for it
        if name in sys.modules:
            sys.modules[name] = launcher
    sys.argv = [launcher.__file__, *arguments]
    kernelapp.launch_new_instance(arguments)


def die_with_parent():
    """On Linux: whoever asked was killed, and this process would go on for nobody."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


if __name__ == "__main__":
    main(sys.argv[1:])
