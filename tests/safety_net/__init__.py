"""The safety net: recorded tiny runs of every recipe, to prove that a rebuild changes nothing.

`cases.py` is the table: each recipe of the catalogue, and some variants, on tiny data of our own
(`tiny_data.py`), 20 steps, seed 42, one thread. `running.py` trains, evaluates and predicts through
the command line in a process of its own. `records/NAME.json` keeps what came out: the logged
losses and validation numbers, the scores of `headway eval`, one prediction, a digest of each tensor
of the saved model, and one of all tensors of the last checkpoint (weights, moments, random state).
Only timings are left out.

    python -m tests.safety_net.record [NAME ...]     # with the code whose behaviour is to be kept
    python -m tests.safety_net.compare [NAME ...]    # with the code that was changed

Names of files, recipes and settings may change: then the table changes, and the records stay. A
number that is changed deliberately is listed in `changes.py` with its reason, not recorded again.

Bits depend on the processor and on the build of torch. The runs are restricted to AVX2 and to the
portable mode of MKL, so that many x86 processors compute the same bits, and each record names the
machine it was made on. Where all bits are the same, the comparison passes on any machine. Where
they are not, it fails on the recorded machine; on another one it demands that losses and scores
are close (0.1 %; 5 % for gradient norms and scores of generated texts; of the longer runs only the
losses, 5 %), does not compare weights and predictions, and says so: "close, on another machine".
Record on that machine, with the old code, to compare bits there.
"""
