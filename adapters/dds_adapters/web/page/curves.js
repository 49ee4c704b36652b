// Curves of claims, devices and pools over time, by uPlot, on the axis of the rows below. Curves of a compared run are dotted.

const SERIES = [
  { name: "claims waiting", colour: "alert", width: 2, of: "claims" },
  { name: "devices, all states", colour: "attached", width: 1.5, of: "devices" },
  { name: "in use", colour: "used", width: 1.5, fill: true, of: "devices" },
  { name: "idle", colour: "idle", width: 1.5, dash: [5, 3], of: "devices" },
];
const GRAIN = 2, MOST_POOLS = 6;

/**
 * The most extreme value of a curve in each of `number` equal parts between two places: the highest, of a stock the lowest.
 * @param {{times: number[], values: number[], least?: boolean}} curve  undefined before the first of its times
 */
function sampled({ times, values, least }, axis, from, to, number) {
  const found = new Array(number), pick = least ? Math.min : Math.max;
  let next = firstAfter(times, axis.instant(from)), now = values[next - 1] ?? (least ? null : 0), most = now;
  const passTo = (at) => {
    for (; next < times.length && times[next] <= at; next += 1) now = values[next], most = most === null ? now : pick(most, now);
  };
  for (let part = 0; part < number; part += 1) {
    most = now;
    passTo(axis.instant(Math.min(to, placeOf(part, from, to, number) + (to - from) / number)));
    found[part] = most;
  }
  return found;
}

/** The place of the first of some ordered instants that is after another one. */
function firstAfter(times, at) {
  let low = 0, high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] > at) high = middle; else low = middle + 1;
  }
  return low;
}

const placeOf = (part, from, to, number) => from + ((to - from) * part) / (number - 1 || 1);

class Curves {
  /** The curves `of` claims, devices or pools, on a scale of their own; `chosen` is called with the two places of a drag. */
  constructor(element, of, chosen) {
    Object.assign(this, { element, of, chosen, made: "", series: [] });
  }

  draw(model, axis, view, label, palette) {
    this.series = model.curves(this.of);
    this.element.hidden = !this.series.length;
    if (this.element.hidden) return;
    const { clientWidth: width, clientHeight: height } = this.element;
    const from = view.from(), to = view.to(axis);
    const seen = [width, height, label, palette.key, from, to, axis.length, model.revision].join();
    if (seen === this.seen) return;
    this.seen = seen;
    this.scale = [from, to];
    const beside = model.beside?.curves(this.of).map((one) => ({ ...one, name: `${one.name}, ${model.beside.log}`, dotted: true })) ?? [];
    const all = [...this.series, ...beside];
    this.top = all.reduce((most, one) => Math.max(most, one.peak), 1);
    const told = this.series.map((one) => `${one.name}, at ${one.least ? "least" : "most"} ${one.least ? one.low : one.peak}`);
    this.element.setAttribute("aria-label", `Over time: ${told.join("; ")}`);
    const number = Math.max(2, Math.floor((width - label) / GRAIN));
    const places = Float64Array.from({ length: number }, (_, part) => placeOf(part, from, to, number));
    const data = [places, ...all.map((one) => sampled(one, axis, from, to, number))];
    const made = [width, height, label, palette.key, ...all.map((one) => one.name)].join();
    if (made === this.made) return void this.plot.setData(data);
    this.plot?.destroy();
    this.made = made;
    this.plot = new uPlot(this.options(width, height, label, palette, all), data, this.element);
  }

  options(width, height, label, palette, all) {
    return {
      width, height, padding: [6, 0, 4, 0], legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false } },
      scales: { x: { time: false, range: () => this.scale }, y: { range: () => [0, this.top * 1.08] } },
      axes: [
        { show: false },
        { size: label, stroke: palette.dim, grid: { stroke: palette.grid, width: 1 }, ticks: { show: false }, space: 18,
          incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4] },
      ],
      series: [{}, ...all.map((one) => ({
        label: one.name, stroke: palette[one.colour], width: one.width, dash: one.dotted ? [1, 3] : one.dash, points: { show: false },
        fill: one.fill && !one.dotted ? palette.usedFill : undefined, paths: uPlot.paths.stepped({ align: 1 }),
      }))],
      hooks: { setSelect: [(plot) => this.selected(plot)] },
    };
  }

  selected(plot) {
    const { left, width } = plot.select;
    if (width < 4) return;
    plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    this.chosen(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
  }
}
