#!/bin/sh
# autogen.sh: make ./configure from a checkout.
cd "$(dirname "$0")" && exec autoreconf -fi
