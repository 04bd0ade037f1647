"""Solutions of lesson C, What a GPU does differently.

1: Compile, wait until the queue is empty, then start the clock, and wait again before it stops.
Without the first wait, others' work is counted.
"""

from prove import run_lesson, solution

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


solution(1, solution_time_it, tempting_time_it, wait_each_time,
         lambda device, work, calls=10: wait_each_time(device, work, 1), without_waiting)
