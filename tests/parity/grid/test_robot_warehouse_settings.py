"""Settings of RobotWarehouse-v0: values that are refused, layouts, and the names of the original."""

import pytest

from gpu_envs.envs.grid.robot_warehouse import Config, original_settings
from gpu_envs.errors import ConfigError
from gpu_envs.runtime.factory import make_core


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"shelf_columns": 2}, "shelf_columns: expected an odd number, got 2"),
        (
            {"shelf_columns": 999},
            "^RobotWarehouse-v0: shelf_columns: expected at most 1000 rows and columns of cells, ",
        ),
        ({"column_height": 999}, "shelf_rows and column_height: expected at most 1000 .* of cells, got 1002 x 10"),
        ({"request_queue_size": 32}, "request_queue_size: expected less than the number of shelves, 32"),
        ({"n_agents": 111}, "n_agents: expected at most one per cell, 110, got 111"),
        ({"layout": "xx\nxg."}, "layout: expected lines of equal lengths, got 3 cells in line 2 and 2 in line 1"),
        ({"layout": "xy\nxg"}, "layout: expected the characters x, g and a dot, got 'y' in line 1"),
        ({"layout": "xx\nx."}, "layout: expected at least one goal, g"),
        ({"layout": "..g"}, "layout: expected at least one shelf, x, got '..g'"),
        ({"shelf_columns": 1}, "shelf_columns: expected at least 3 with shelf_rows=1"),
        ({"layout": "xxxg", "normalised_coordinates": True}, "normalised_coordinates: expected False"),
        ({"image_observation_layers": ("goals", "goals")}, "image_observation_layers: expected different layers of"),
        ({"image_observation_layers": ("walls",)}, "image_observation_layers: expected different layers of"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        make_core("RobotWarehouse-v0", 1, "cpu", **settings)


@pytest.mark.parametrize("layout", ["\n X X .\n x G g \n", "xx. | xgg"])
def test_layout_ignores_spaces_and_case(layout):
    floor, goals = Config(layout=layout).floor_and_goals()
    assert floor.tolist() == [[0, 0, 1], [0, 2, 2]]
    assert goals == [(1, 1), (1, 2)]


def test_names_of_the_original_become_settings():
    assert original_settings("rware-small-4ag-easy-v2") == {
        "shelf_rows": 2, "shelf_columns": 3, "column_height": 8, "n_agents": 4, "sensor_range": 1,
        "request_queue_size": 8, "reward_type": "individual",
    }  # fmt: skip
    assert original_settings("rware-img-Nd-2s-2x5-3h-7ag-9req-twostage-v2") == {
        "shelf_rows": 2, "shelf_columns": 5, "column_height": 3, "n_agents": 7, "sensor_range": 2,
        "request_queue_size": 9, "reward_type": "two_stage", "observation_type": "image",
        "image_observation_directional": False,
    }  # fmt: skip
    assert original_settings("rware-tiny-3ag-hard-v2")["request_queue_size"] == 1
    with pytest.raises(ConfigError, match="expected an id of rware such as 'rware-tiny-2ag-easy-v2'"):
        original_settings("rware-huge-2ag-v2")
