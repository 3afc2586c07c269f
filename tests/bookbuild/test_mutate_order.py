"""In which order cells are tried: quick ones first, and none before what it needs."""

from bookbuild.mutate_order import names_of, order_of
from bookbuild.source import Cell


def cells(*codes):
    return [Cell(code, 1, 2, {"label": f"c{number}"}) for number, code in enumerate(codes)]


def test_slow_cells_and_what_needs_them_wait():
    order = order_of(cells("a = 1", "b = slow(a)", "c = b + 1", "d = a + 1"), {"c1": 9.0})
    assert (order.quick, order.waiting) == (("c0", "c3"), ("c1", "c2"))


def test_a_cell_that_would_overwrite_what_a_slow_one_reads_waits_too():
    order = order_of(cells("a = 1", "b = slow(a)", "a = 2", "d = a", "e = 5"), {"c1": 9.0})
    assert (order.quick, order.waiting) == (("c0", "c4"), ("c1", "c2", "c3"))


def test_names_bound_anew_before_they_are_read_are_no_obstacle():
    codes = ["fig = slow()\nfig.show()", "fig = 1\nfig.show()", "x = [fig for fig in [1]]"]
    order = order_of(cells(*codes), {"c0": 9.0})
    assert (order.quick, order.waiting) == (("c1", "c2"), ("c0",))


def test_who_calls_a_function_reads_what_it_reads():
    codes = ["x = 1", "def f():\n    return x", "y = slow(f())", "x = 2", "z = 3"]
    order = order_of(cells(*codes), {"c2": 9.0})
    assert order.waiting == ("c2", "c3")


def test_cheap_groups_of_waiting_cells_come_first():
    codes = ["a = slow()", "b = a", "c = slow()", "d = c"]
    order = order_of(cells(*codes), {"c0": 90.0, "c2": 9.0})
    assert order.waiting == ("c2", "c3", "c0", "c1")


def test_what_is_changed_in_place_is_needed_by_those_that_read_it_later():
    order = order_of(cells("a = []", "a.append(slow())", "b = a[0]", "c = 1"), {"c1": 9.0})
    assert (order.quick, order.waiting) == (("c0", "c3"), ("c1", "c2"))
    assert names_of('a["x"].b[0] = c').writes == {"a"}
    assert names_of('a["x"].b[0] = c').reads == {"a", "c"}
    assert names_of("a.x = 1").writes == {"a"}
    assert names_of('a["x"].append(b)') == names_of('a["x"].b = b')
    assert names_of("a.index(1)").writes == set()
    assert names_of("b = np.sort(a)").writes == {"b"}
    assert names_of("f(a).append(1)").reads == {"f", "a"}


def test_names_of_functions_comprehensions_and_loops_are_their_own():
    names = names_of("def f(x, *, y=g):\n    z = x\n    return z + h\nw = [v for v in f(1)]\n")
    assert names.reads == {"g", "h"}
    assert names.writes == {"f", "w"}
    assert names.functions == {"f": {"g", "h"}}
    assert names_of("for i in range(n):\n    t = i\nt += 1").reads == {"range", "n"}
    assert names_of("t += 1").reads == {"t"}
