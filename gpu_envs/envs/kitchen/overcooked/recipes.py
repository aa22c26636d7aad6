"""Orders of Overcooked: recipes, their rewards and cooking times, as overcooked_ai computes them."""

from collections.abc import Mapping
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from gpu_envs.errors import ConfigError, shown
from warp_kernels.kitchen.overcooked.items import NUM_RECIPES

DEFAULT = 20
"""Reward and cooking time of a recipe without others."""
INGREDIENTS = ("onion", "tomato")
"""Names of ingredients."""
EXCLUSIVE = (
    ("onion_value", "delivery_reward"),
    ("onion_value", "recipe_values"),
    ("recipe_values", "delivery_reward"),
    ("onion_time", "cook_time"),
    ("onion_time", "recipe_times"),
    ("recipe_times", "cook_time"),
)
"""Pairs of settings of which the original refuses to have both."""
Recipe = tuple[str, ...]
"""Ingredients of a soup, sorted."""


def read_orders(name: str, lists: Any, limit: int) -> tuple[Recipe, ...]:
    """Return orders as sorted recipes.

    Args:
        name: Name of the setting, for messages.
        lists: Lists of ingredients, or the original's dicts {"ingredients": [...]}.
        limit: Largest number of ingredients.

    Raises:
        ConfigError: An order is not a recipe, or occurs twice.
    """
    orders: list[Recipe] = []
    for order in lists if isinstance(lists, tuple | list) else [None]:
        items = order.get("ingredients") if isinstance(order, Mapping) else order
        items = items if isinstance(items, tuple | list) else ()
        if not 1 <= len(items) <= limit or not all(item in INGREDIENTS for item in items):
            expected = f"lists of 1 to {limit} ingredients, 'onion' or 'tomato'"
            raise ConfigError(f"{name}: expected {expected}, got {shown(lists)}")
        orders.append(tuple(sorted(items)))
    for order in orders:
        if orders.count(order) > 1:
            raise ConfigError(f"{name}: expected different recipes, got {list(order)} twice")
    return tuple(orders)


def all_recipes(limit: int) -> tuple[Recipe, ...]:
    """Return all recipes of up to ``limit`` ingredients."""
    return tuple(recipe for size in range(limit) for recipe in combinations_with_replacement(INGREDIENTS, size + 1))


def check(settings: Mapping[str, Any]) -> None:
    """Check the settings of rewards and times that exclude or need others.

    Args:
        settings: Settings of a layout and those given, without None.

    Raises:
        ConfigError: Two settings exclude each other, or one lacks what it needs.
    """
    for setting, other in (("onion_value", "tomato_value"), ("onion_time", "tomato_time")):
        if (setting in settings) != (other in settings):
            have, lacks = (setting, other) if setting in settings else (other, setting)
            raise ConfigError(f"{have}: expected {lacks}, too; set both or neither")
    for setting, other in EXCLUSIVE:
        if setting in settings and other in settings:
            raise ConfigError(
                f"{setting}: expected no {other} besides, got both (the layout may have one); set one of them"
            )
    orders = settings["start_all_orders"]
    for name in ("recipe_values", "recipe_times"):
        if name in settings and len(settings[name]) != len(orders):
            expected = f"a number per order of start_all_orders, {len(orders)}"
            raise ConfigError(f"{name}: expected {expected}, got {len(settings[name])}")
    for order in settings["start_bonus_orders"]:
        if orders and order not in orders:
            raise ConfigError(f"start_bonus_orders: expected recipes of start_all_orders, got {list(order)}")


def _amount(settings: Mapping[str, Any], recipe: Recipe, fixed: str, table: str, parts: str) -> float:
    """Return the reward or time of a recipe. As in the original, a 0 of ``fixed`` or ``parts`` counts as not set."""
    if settings.get(fixed):
        return settings[fixed]
    if recipe in settings["start_all_orders"] and table in settings:
        return settings[table][settings["start_all_orders"].index(recipe)]
    onion, tomato = (settings.get(f"{ingredient}_{parts}") for ingredient in INGREDIENTS)
    if onion and tomato:
        return onion * recipe.count("onion") + tomato * recipe.count("tomato")
    return DEFAULT


def _index(recipe: Recipe) -> int:
    return recipe.count("onion") + 16 * recipe.count("tomato")


def values(settings: Mapping[str, Any], order_bonus: float, limit: int) -> np.ndarray:
    """Return the reward of serving, by recipe: 0 for soups that are not ordered, (256,) float32."""
    table = np.zeros(NUM_RECIPES, np.float32)
    for recipe in settings["start_all_orders"] or all_recipes(limit):
        bonus = order_bonus if recipe in settings["start_bonus_orders"] else 1.0
        table[_index(recipe)] = bonus * _amount(settings, recipe, "delivery_reward", "recipe_values", "value")
    return table


def cook_times(settings: Mapping[str, Any], limit: int) -> np.ndarray:
    """Return the time to cook by recipe [steps], (256,) int32; 0 for what no pot holds."""
    table = np.zeros(NUM_RECIPES, np.int32)
    for recipe in all_recipes(limit):
        table[_index(recipe)] = _amount(settings, recipe, "cook_time", "recipe_times", "time")
    return table
