"""Solutions of lesson C, What a GPU does differently.

1: Compile, wait until the queue is empty, then start the clock, and wait again before it stops.
Without the first wait, others' work is counted.
2: A sparse matrix of ones adds each segment by itself. Differences of a running total carry its
rounding into every segment.
"""

from prove import run_lesson, solution
import numpy as np
import scipy.sparse

run_lesson(__file__)


def solution_time_it(device, work, calls=10):
    work(device)            # compiles
    device.synchronize()    # nothing of others is left in the queue
    begin = device.now
    for _ in range(calls):
        work(device)
    device.synchronize()
    return (device.now - begin) / calls


def tempting_time_it(device, work, calls=10):
    begin = device.now
    for _ in range(calls):
        work(device)
    device.synchronize()    # waits at the end, but began with others' work
    return (device.now - begin) / calls


def wait_each_time(device, work, calls=10):
    work(device)
    device.synchronize()
    begin = device.now
    for _ in range(calls):
        work(device)
        device.synchronize()    # no call works ahead: each launch costs its 5 µs
    return (device.now - begin) / calls


def without_waiting(device, work, calls=10):
    work(device)
    begin = device.done         # no real device tells this
    for _ in range(calls):
        work(device)
    return (device.done - begin) / calls


def solution_segment_sums(x, offsets):
    ones = np.ones(len(x), np.float32)
    matrix = scipy.sparse.csr_matrix((ones, np.arange(len(x)), offsets),
                                     shape=(len(offsets) - 1, len(x)))
    return matrix @ x                                         # (B, N) (N, d)


def tempting_segment_sums(x, offsets):
    running = np.concatenate([np.zeros((1, x.shape[1]), x.dtype), np.cumsum(x, axis=0)])
    return running[offsets[1:]] - running[offsets[:-1]]


solution(1, solution_time_it, tempting_time_it, wait_each_time,
         lambda device, work, calls=10: wait_each_time(device, work, 1), without_waiting)
solution(2, solution_segment_sums, tempting_segment_sums,
         lambda x, offsets: np.add.reduceat(x, offsets[:-1], axis=0),     # an empty one gets a row
         lambda x, offsets: tempting_segment_sums(x.astype(float), offsets).astype(np.float32))
