#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# test_models.sh: the protocols by which ranks meet on a device keep their promises in every order of their
# steps, and those with a mistake do not: tests/proof/model_*.py, some seconds in all.
set -u
here=${srcdir:-$(dirname "$0")/..}
if ! python3 -c '' 2>/dev/null; then
    echo "skipped: the models of how ranks meet on a device (no python3)"
    exit 0
fi
failures=0
for model in local pairs words captured direct led fetch; do
    python3 -B "$here/tests/proof/model_$model.py" || failures=$((failures + 1))
done
echo "test_models: $failures failures"
[ "$failures" -eq 0 ]
