// Curves of devices and waiting claims over time, by uPlot, on the axis of the rows below. Curves of a compared run are dotted.

const SERIES = [
  { name: "claims waiting", colour: "alert", width: 2, of: "claims" },
  { name: "devices, all states", colour: "attached", width: 1.5, of: "devices" },
  { name: "in use", colour: "used", width: 1.5, fill: true, of: "devices" },
  { name: "idle", colour: "idle", width: 1.25, dash: [5, 3], of: "devices" },
];
const GRAIN = 2;

/** The highest value of each curve in each of `number` equal parts between two places. */
function sampled({ times, values }, axis, from, to, number) {
  const places = new Float64Array(number), found = values.map(() => new Float64Array(number));
  let next = 0;
  const now = values.map(() => 0);
  const most = now.slice();
  const passTo = (at) => {
    for (; next < times.length && times[next] <= at; next += 1) {
      for (let n = 0; n < now.length; n += 1) most[n] = Math.max(most[n], (now[n] = values[n][next]));
    }
  };
  passTo(axis.instant(from));
  for (let part = 0; part < number; part += 1) {
    for (let n = 0; n < now.length; n += 1) most[n] = now[n];
    places[part] = from + ((to - from) * part) / (number - 1 || 1);
    passTo(axis.instant(Math.min(to, places[part] + (to - from) / number)));
    found.forEach((list, n) => { list[part] = most[n]; });
  }
  return [places, ...found];
}

class Curves {
  /** The curves of claims or of devices, on a scale of their own; `chosen` is called with the two places of a drag. */
  constructor(element, of, chosen) {
    this.element = element;
    this.series = SERIES.filter((one) => one.of === of);
    this.chosen = chosen;
    this.made = "";
  }

  draw(model, axis, view, label, palette) {
    const { clientWidth: width, clientHeight: height } = this.element;
    const from = view.from(), to = view.to(axis);
    const made = [width, height, label, palette.key].join(), seen = [made, from, to, axis.length, model.revision].join();
    if (seen === this.seen) return;
    this.seen = seen;
    this.scale = [from, to];
    const mine = (list) => list.filter((_, n) => this.series.includes(SERIES[n]));
    const { times, values, peaks } = model.curves(), beside = model.beside?.curves();
    this.beside = beside && model.beside.log;
    this.top = Math.max(1, ...mine(peaks), ...mine(beside?.peaks ?? []));
    const most = this.series.map((one, n) => `${one.name}, ${mine(peaks)[n]} at most`);
    this.element.setAttribute("aria-label", `Over time: ${most.join("; ")}`);
    const number = Math.max(2, Math.floor((width - label) / GRAIN));
    const data = sampled({ times, values: mine(values) }, axis, from, to, number);
    if (beside) data.push(...sampled({ ...beside, values: mine(beside.values) }, axis, from, to, number).slice(1));
    if (made === this.made) return void this.plot.setData(data);
    this.plot?.destroy();
    this.made = made;
    this.plot = new uPlot(this.options(width, height, label, palette), data, this.element);
  }

  options(width, height, label, palette) {
    return {
      width, height, padding: [6, 0, 4, 0], legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false } },
      scales: { x: { time: false, range: () => this.scale }, y: { range: () => [0, this.top * 1.08] } },
      axes: [
        { show: false },
        { size: label, stroke: palette.dim, grid: { stroke: palette.grid, width: 1 }, ticks: { show: false }, space: 22,
          incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4] },
      ],
      series: [{}, ...this.series.map((one) => ({
        label: one.name, stroke: palette[one.colour], width: one.width, dash: one.dash, points: { show: false },
        fill: one.fill ? palette.usedFill : undefined, paths: uPlot.paths.stepped({ align: 1 }),
      })), ...(this.beside ? this.series : []).map((one) => ({
        label: `${one.name}, ${this.beside}`, stroke: palette[one.colour], width: one.width, dash: [1, 3], points: { show: false },
        paths: uPlot.paths.stepped({ align: 1 }),
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
