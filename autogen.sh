#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# autogen.sh: make ./configure from a checkout.
cd "$(dirname "$0")" && exec autoreconf -fi
