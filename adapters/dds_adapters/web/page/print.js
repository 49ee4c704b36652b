// The printed page: adds to the summary the claims that waited longest, and their bars over time.

const ON_PAPER = 40, PAPER_WIDTH = 680, PAPER_ROW = 14;

function preparePrint(element, page) {
  const { model } = page;
  const rows = rowsOf(model, { ...page.state, tab: "claims" }).slice(0, ON_PAPER);
  const left = model.claims.filter(Boolean).length - rows.length;
  element.replaceChildren(
    make("h2", {}, "Claims", page.state.q ? ` that match ${page.state.q}` : ""),
    tableOf(["claim", "outcome", "waited", "attempts", "node", "cause"], rows.map(({ thing }) => [
      thing.name.slice(0, 200), thing.outcome, lengthOf(model.waited(thing)), String(thing.attempts.length), thing.node, thing.cause])),
    left > 0 ? make("p", {}, `and ${left} more`) : "",
    make("h2", {}, `Over time, ${page.seen().map(page.time).join(" to ")} UTC`),
    make("ul", { class: "chips" }, ...model.stages.map(([name]) => make("li", {}, make("i", { class: `chip stage-${name}` }), name)),
      make("li", {}, make("i", { class: "chip stage-bound" }), "bound")),
    make("canvas", {}),
  );
  const canvas = element.querySelector("canvas"), palette = page.palette(true);
  const context = cleared(canvas, PAPER_WIDTH, (rows.length + 1) * PAPER_ROW);
  const names = 150, { axis, view } = page;
  const place = overTime(axis, view.from(), view.to(axis), PAPER_WIDTH - names);
  rows.forEach((row, n) => {
    paintText(context, row.text, 0, n * PAPER_ROW + PAPER_ROW / 2, names - 6, palette.text);
    context.save();
    context.translate(names, 0);
    context.beginPath();
    context.rect(0, 0, PAPER_WIDTH - names, (rows.length + 1) * PAPER_ROW);
    context.clip();
    paintRow(context, row, model, place, n * PAPER_ROW, PAPER_ROW, palette);
    context.restore();
  });
  const { step, found } = axis.ticks(view.from(), view.to(axis), ((view.to(axis) - view.from()) / place.width) * 80, model.start);
  context.fillStyle = palette.text;
  for (const at of found) context.fillText(timeOfDay(model.start + at, step), names + place.x(at), (rows.length + 0.5) * PAPER_ROW);
  element.hidden = false;
}
