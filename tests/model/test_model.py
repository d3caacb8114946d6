"""The fleet's code holds its promises in all orders of steps and events that are searched here.

Bounded by states and not by time, so that every machine sees the same ones. ``make model`` searches both small worlds
to the end.
"""

from functools import lru_cache

import pytest

from tests.model.defects import DEFECTS, Hunt
from tests.model.search import Bounds, Search
from tests.model.steps import Model
from tests.model.story import narrated, tell
from tests.model.walks import walk
from tests.model.worlds import ONE, PLANNED, THREE, TWO, WORLDS, World


@lru_cache
def shared(world: str) -> Model:
    """Return a model of a world; what calls come to is known to all tests of it."""
    return Model(WORLDS[world])


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("world", "states"), [(ONE, 1_500), (TWO, 2_000), (PLANNED, 1_500)], ids=lambda each: getattr(each, "name", "")
)
def test_no_order_of_steps_and_events_breaks_a_rule(world: World, states: int) -> None:
    search = Search(shared(world.name), Bounds(disturbances=1, states=states))
    search.run()
    assert not search.found, "\n\n".join(tell(search.model, found) for found in search.found.values())
    assert search.states > states


@pytest.mark.parametrize("world", [ONE, TWO], ids=lambda world: world.name)
def test_undisturbed_every_order_of_steps_is_seen(world: World) -> None:
    search = Search(Model(world), Bounds(disturbances=0))
    search.run()
    assert search.complete
    assert search.states > 50


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("world", "count"), [(ONE, 10), (TWO, 10), (THREE, 10)], ids=lambda each: getattr(each, "name", "")
)
def test_random_walks_break_no_rule(world: World, count: int) -> None:
    model = shared(world.name)
    for seed in range(count):
        gone = walk(model, seed)
        assert gone.found is None, f"seed {seed}\n{narrated(model, gone.found, gone.gone)}"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", [name for name, defect in DEFECTS.items() if defect.switch is not None])
def test_a_defect_that_is_put_back_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    defect = DEFECTS[name]
    assert defect.switch is not None
    defect.switch(monkeypatch)
    assert Hunt(defect).run() is not None, defect.what
