"""Solutions of lesson C, NumPy and CuPy.

1: Compile, wait until the queue is empty, then start the clock, and wait again before it stops.
Without the first wait, others' work is counted.
2: Ids below 0 wrap as well, and an empty batch has no least id. The tempting one looks at the
upper end alone.
"""

from prove import run_lesson, solution

lesson = run_lesson(__file__)
wrapping_take = lesson.wrapping_take


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


def solution_checked_take(table, ids):
    if len(ids) and not 0 <= ids.min() <= ids.max() < len(table):
        raise IndexError(f"ids {ids.min()} to {ids.max()}, of {len(table)} rows")
    return wrapping_take(table, ids)


def tempting_checked_take(table, ids):
    if (ids >= len(table)).any():                             # an id below 0 wraps, too
        raise IndexError(f"id {ids.max()}, of {len(table)} rows")
    return wrapping_take(table, ids)


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


def taken_first(table, ids):
    rows = wrapping_take(table, ids)
    if len(ids) and not 0 <= ids.min() <= ids.max() < len(table):
        raise IndexError("too late")
    return rows


solution(1, solution_time_it, tempting_time_it, wait_each_time,
         lambda device, work, calls=10: wait_each_time(device, work, 1), without_waiting)
solution(2, solution_checked_take, tempting_checked_take, taken_first)
