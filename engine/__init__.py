"""The decode engine: models, cache, kernels, planning. Standard library, numpy and torch; no Qt."""

import os

# Threads of libgomp, which torch and our kernels share, wait busily for each other: some 300,000 rounds by
# default, a millisecond and more. Where another program has one of the cores, they burn the very time that
# the one they wait for needs: a prompt of 600 tokens took 2 to 10 s instead of 0.6. After a thousand rounds
# they sleep: 1.2 to 2.0 s there, the same speed on a quiet machine (torch's own decode a tenth slower).
# libgomp reads this once, when torch brings it: https://gcc.gnu.org/onlinedocs/libgomp/GOMP_005fSPINCOUNT.html
if not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & os.environ.keys():
    os.environ["GOMP_SPINCOUNT"] = "1000"
