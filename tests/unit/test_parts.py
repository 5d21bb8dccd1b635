"""The parts of the soak are all of it, and each test is in one of them."""

import pytest

from tests.support.parts import pick_part


@pytest.mark.parametrize("parts", [1, 3, 8, 20])
def test_the_parts_are_all_of_it(parts: int) -> None:
    items = range(17)
    picked = [item for n in range(1, parts + 1) for item in pick_part(items, f"{n}/{parts}")]
    assert sorted(picked) == list(items)


@pytest.mark.parametrize("part", ["", "3", "0/8", "9/8", "1/0", "-1/8", "a/b"])
def test_another_spelling_is_refused(part: str) -> None:
    with pytest.raises(ValueError, match="is not a part"):
        pick_part([], part)
