"""Solutions of lesson 11, All of it in one file.

1: A gradient's own product feeds nothing else. dz is made after dv and feeds W and the table. dy
comes first on the way back and feeds all.
"""

from prove import run_lesson, solution

run_lesson(__file__)

own = ("v.T @ dy", "y.T @ dy")
late = ("[du, dv]), unit_cache)", "[dv, du]), unit_cache)")
first = ("dy = l2_normalize_backward(dv_prime, y_cache)", "dy = dv_prime")
solution(1, lambda: [own, late, first],
         lambda: [own, first, late],                           # the order of the way back
         lambda: [own, ("dy.sum(axis=0)", "dy.mean(axis=0)"), first],
         lambda: [own, late, ("scale", "2 * scale")],
         lambda: [own, ("dv = dy + dy", "dv = dy - dy"), first])
