# SPDX-License-Identifier: BSD-3-Clause
"""A test that hangs ends the run, with a trace of every thread; so no test waits for ever."""

import faulthandler
import signal

import pytest

HANG_S = 600  # a machine that is only slow does not come near it


@pytest.fixture(autouse=True)
def end_a_hang():
    faulthandler.dump_traceback_later(HANG_S, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


# In the background a shell has its programs ignore Ctrl-C, and ranks would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
