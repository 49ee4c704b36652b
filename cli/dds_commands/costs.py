"""`dds usage`: device-time by state, its cost and energy, and the same for nodes with fixed devices as a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import click

from dds_commands.parameters import (
    limit_option,
    mapping_from,
    output_options,
    period,
    period_of_time_options,
    source_arguments,
)
from dds_commands.screen import arranged, note, show, show_data, show_json, show_left_out, table
from dds_commands.sources import Opened, go_on, history_of
from dds_core.errors import InputError
from dds_core.scaler.history import History
from dds_core.scaler.history.usage import DAY, HOLDERS, PLACES, Key, most_at_once, provisioned, usage
from dds_core.scaler.spending import STATES, USED
from dds_core.timeline.instants import day, duration, rfc3339

HOUR = 3_600_000_000
DIMENSIONS = (*PLACES, *HOLDERS)
OTHERS = "*"
"""Key in a file of prices or watts that stands for every model without a line of its own."""
CURRENCY = "currency"


class Watts(NamedTuple):
    """Power of one device: `used` while it is in use, `idle` in every other state."""

    used: float
    idle: float


class Rates(NamedTuple):
    """Price of a device-hour and watts, by model. A mapping is empty when its file was not given."""

    prices: Mapping[str, float]
    watts: Mapping[str, Watts]
    currency: str = ""


class Row(NamedTuple):
    """One row of the output: `key` has one value for each dimension. `spent` is the device-time in microseconds by state, `fixed`
    the device-time if each node owned its peak (None if the dimensions do not allow that). Costs and energy (kWh) are None if one
    of the row's models has no rate."""

    key: Key
    spent: dict[str, int]
    fixed: int | None
    cost: float | None
    fixed_cost: float | None
    energy: float | None
    fixed_energy: float | None

    @property
    def total(self) -> int:
        """Device-time on a node in any state, in microseconds."""
        return sum(self.spent.values())


price_option = click.option(
    "--price", "price_file", metavar="FILE", help="Price of a device-hour by model (YAML, TOML or JSON)."
)


@click.command("usage", short_help="Show device use, its cost and energy.")
@source_arguments
@period_of_time_options
@output_options("table", "json", "jsonl")
@click.option("--by", metavar="WHAT[,…]", default="model", show_default=True, help=f"Group by {', '.join(DIMENSIONS)}.")
@price_option
@click.option(
    "--watts", "watts_file", metavar="FILE", help="Watts of a device by model, used and idle (YAML, TOML or JSON)."
)
@limit_option
def costs(
    sources: tuple[str, ...],
    url: str | None,
    name: str | None,
    since: str | None,
    until: str | None,
    form: str,
    by: str,
    price_file: str | None,
    watts_file: str | None,
    limit: int,
) -> None:
    """Show how long devices were used, idle, attaching, detaching or in error; with --price and --watts also cost and energy;
    and for comparison fixed devices: each node owns as many as it ever used at once. The time of a device that claims share
    is divided among them.

    A price file has lines such as `A100 40G: 2.5`, `"*": 1` for all other models, and `currency: EUR`; a watts file lines
    such as `A100 40G: {used: 300, idle: 60}`, or one number for both.
    """
    wanted = dimensions(by)
    rates = read_rates(price_file, watts_file)
    with Opened() as opened:
        source = opened.source(sources, url, name)
        first, last = period(source.span, since, until)
        if first.position is not None:
            raise InputError(
                "time is counted from an instant, not from a position", fix="give --since an instant, or 2h"
            )
        history = history_of(source, last)
        go_on(history, source, last)
    history.first = max(history.first, first.at or 0)
    _note_models(history, rates)
    chosen = sorted(rows_of(history, wanted, rates), key=lambda row: (-row.spent[USED], -row.total, row.key))
    rows, left = arranged(chosen, None, limit)
    if form == "json":
        show_json(_document(history, rows, wanted, rates))
    elif form == "jsonl":
        show_data((_data(row, wanted) for row in rows), form)
    else:
        _show(history, rows, wanted, rates)
    show_left_out(left, form)


def dimensions(by: str) -> tuple[str, ...]:
    """The dimensions that --by names. Raises InputError."""
    wanted = tuple(dict.fromkeys(part.strip() for part in by.split(",") if part.strip()))
    strange = [one for one in wanted if one not in DIMENSIONS]
    if strange or not wanted:
        what = f"{strange[0]!r} is nothing that use is told by" if strange else "--by names nothing"
        raise InputError(what, fix=f"give some of {', '.join(DIMENSIONS)}, with commas between them")
    return wanted


# -- rates ---------------------------------------------------------------------------------------------------------------


def read_rates(price_file: str | None, watts_file: str | None) -> Rates:
    """Read the files of prices and watts. Raises InputError."""
    said = mapping_from(price_file, InputError, "A100 40G: 2.5") if price_file else {}
    currency = str(said.pop(CURRENCY, ""))
    prices = {str(model): _number(value, price_file or "", model) for model, value in said.items()}
    drawn = mapping_from(watts_file, InputError, "A100 40G: 300") if watts_file else {}
    return Rates(
        prices, {str(model): _watts(value, watts_file or "", model) for model, value in drawn.items()}, currency
    )


def _watts(value: object, where: str, model: object) -> Watts:
    if not isinstance(value, dict):
        return Watts(*[_number(value, where, model)] * 2)
    if value.keys() != {"used", "idle"}:
        raise InputError(f"{model} needs used and idle", where=where, fix=f"write {model}: {{used: 300, idle: 60}}")
    return Watts(_number(value["used"], where, model), _number(value["idle"], where, model))


def _number(value: object, where: str, model: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise InputError(f"{value!r} of {model} is no number of 0 or more", where=where, fix="write one, such as 2.5")
    return float(value)


def _note_models(history: History, rates: Rates) -> None:
    """Note models without a rate, and rates for models that do not exist: a name may be misspelt."""
    models = {device.model for device in history.devices.values()}
    for what, known in (("price", rates.prices), ("watts", rates.watts)):
        missing = sorted(models - known.keys()) if known and OTHERS not in known else []
        strange = sorted(known.keys() - models - {OTHERS})
        if missing:
            note(f"no {what} for {', '.join(missing)}")
        if strange:
            note(f"{what} for {', '.join(strange)}, of which there is no device")


# -- rows ----------------------------------------------------------------------------------------------------------------


def rows_of(history: History, by: Sequence[str], rates: Rates) -> list[Row]:
    """One row for each combination of dimension values that has device-time."""
    models = (*by, "model")
    spent = usage(history, models, _name_of_day)
    fixed = provisioned(history, models, _name_of_day) if set(by) <= set(PLACES) else None
    here: dict[Key, dict[str, dict[str, int]]] = {}
    owned: dict[Key, dict[str, int]] = {}
    for (*key, model), found in spent.items():
        here.setdefault(tuple(key), {})[model] = found
    for (*key, model), micros in (fixed or {}).items():
        owned.setdefault(tuple(key), {})[model] = micros
    keys = dict.fromkeys((*here, *owned))
    return [_row(key, here.get(key, {}), owned.get(key, {}) if fixed is not None else None, rates) for key in keys]


def _name_of_day(number: int) -> str:
    return day(number * DAY)


def _row(key: Key, here: Mapping[str, dict[str, int]], owned: Mapping[str, int] | None, rates: Rates) -> Row:
    """`here`: time by model and state; `owned`: time by model if nodes owned their devices."""
    return Row(
        key,
        {state: sum(found[state] for found in here.values()) for state in STATES},
        sum(owned.values()) if owned is not None else None,
        cost_of({model: sum(found.values()) for model, found in here.items()}, rates),
        cost_of(owned, rates),
        energy_of({model: (found[USED], sum(found.values())) for model, found in here.items()}, rates),
        energy_of(
            {m: (here[m][USED] if m in here else 0, t) for m, t in owned.items()} if owned is not None else None, rates
        ),
    )


def cost_of(times: Mapping[str, int] | None, rates: Rates) -> float | None:
    """The cost of device-time (microseconds by model); None if a model has no price."""
    prices = [rates.prices.get(model, rates.prices.get(OTHERS)) for model in times or ()]
    if times is None or not rates.prices or None in prices:
        return None
    return sum(micros / HOUR * (price or 0.0) for micros, price in zip(times.values(), prices, strict=True))


def energy_of(times: Mapping[str, tuple[int, int]] | None, rates: Rates) -> float | None:
    """Energy in kWh; `times` is by model (time in use, total time) in microseconds. None if a model has no watts."""
    drawn = [rates.watts.get(model, rates.watts.get(OTHERS)) for model in times or ()]
    if times is None or not rates.watts or None in drawn:
        return None
    pairs = zip(times.values(), (one or Watts(0.0, 0.0) for one in drawn), strict=True)
    return sum((used * watts.used + max(0, total - used) * watts.idle) / HOUR / 1000 for (used, total), watts in pairs)


# -- output --------------------------------------------------------------------------------------------------------------


def _show(history: History, rows: Sequence[Row], by: Sequence[str], rates: Rates) -> None:
    show(f"{rfc3339(history.first)} to {rfc3339(history.now)}, {duration(history.now - history.first)}")
    headings = [*by, *STATES, "in all", "if fixed"]
    headings += ["cost", "cost if fixed"] * bool(rates.prices) + ["kWh", "kWh if fixed"] * bool(rates.watts)
    table(headings, [_cells(row, rates) for row in rows], "no device was attached")
    for model, (fleet, nodes) in sorted(most_at_once(history).items()):
        show(f"{model}: at most {fleet} in use at once; nodes with fixed devices would need {nodes}")


def _cells(row: Row, rates: Rates) -> list[str]:
    times = [_time(row.spent[state]) for state in STATES]
    cells = [*(value or "-" for value in row.key), *times, _time(row.total), _time(row.fixed)]
    cells += [priced(one, rates) for one in (row.cost, row.fixed_cost)] * bool(rates.prices)
    return cells + ["-" if one is None else f"{one:,.2f}" for one in (row.energy, row.fixed_energy)] * bool(rates.watts)


def _time(micros: int | None) -> str:
    if not micros:
        return "-"
    return duration(micros) if micros < HOUR else f"{micros / HOUR:,.1f} h"


def priced(amount: float | None, rates: Rates) -> str:
    """The amount in the currency of the prices."""
    return "-" if amount is None else f"{amount:,.2f} {rates.currency}".rstrip()


def _document(history: History, rows: Sequence[Row], by: Sequence[str], rates: Rates) -> dict[str, Any]:
    return {
        "from": rfc3339(history.first),
        "to": rfc3339(history.now),
        "currency": rates.currency or None,
        "rows": [_data(row, by) for row in rows],
        "most_at_once": {
            model: {"fleet": fleet, "sum_of_nodes": nodes} for model, (fleet, nodes) in most_at_once(history).items()
        },
    }


def _data(row: Row, by: Sequence[str]) -> dict[str, Any]:
    second = 1_000_000
    return {
        **dict(zip(by, row.key, strict=True)),
        "seconds": {state: micros / second for state, micros in row.spent.items()},
        "total_seconds": row.total / second,
        "owned_seconds": row.fixed / second if row.fixed is not None else None,
        "cost": row.cost,
        "owned_cost": row.fixed_cost,
        "kwh": row.energy,
        "owned_kwh": row.fixed_energy,
    }
