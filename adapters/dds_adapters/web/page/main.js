// The page: its view, its input, and one redraw of all that changed since the last one.

const $ = (id) => document.getElementById(id);
const TABS = ["claims", "devices", "waits", "alerts"];
const ZOOM = 1.4, TAP = 4;

class Page {
  constructor() {
    this.model = new Model();
    this.axis = new Axis(new Float64Array([0, 1]), false);
    this.view = new View();
    this.rows = new Rows($("rows"));
    const chosen = (from, to) => this.look(() => this.view.set(this.axis, from, to));
    this.curves = ["claims", "devices", "pools"].map((of) => new Curves($(`curves-${of}`), of, chosen));
    this.address = new Address((state) => this.goTo(state));
    this.state = this.address.read();
    this.panel = new Panel(this.model, {
      open: (kind, key) => this.open(kind, key), go: (at) => this.scrub(at), time: (at) => this.time(at),
      ask: (kind, key) => this.feed?.asks(kind, key), close: () => this.close(), facts: (on) => this.change({ facts: on ? "1" : "" }),
    });
    this.stale = new Set();
    this.listen();
  }

  /** Take in a patch: the first, which is complete, or a change. */
  take(patch) {
    const isFirst = !this.model.revision;
    this.model.take(patch);
    this.newAxis();
    if (this.model.log) document.title = $("title").textContent = `${this.model.log}: ${this.model.live ? "live" : "report"}`;
    $("span").textContent = this.words();
    $("tab-alerts").textContent = `Alerts (${this.model.alerts.length})`;
    if (isFirst) this.goTo(this.state);
    this.touch("rows", "alerts", "picture", "legend", ...(this.feed ? [] : ["detail"]));
  }

  /** Only the time has changed. */
  later() {
    this.model.later();
    this.newAxis();
    $("span").textContent = this.words();
    this.touch("rows", "picture");
  }

  words() {
    const { start, now, since, dds } = this.model, from = start + since;
    const last = dayOf(start + now) === dayOf(from) ? "" : `${dayOf(start + now)} `;
    return `${dayOf(from)} ${timeOfDay(from, 1000)} to ${last}${timeOfDay(start + now, 1000)} UTC · dds ${dds}`;
  }

  time = (at) => timeOfDay(this.model.start + at);

  newAxis() {
    const seen = this.view.range?.map((place) => this.axis.instant(place));
    this.axis = new Axis(this.model.instants(), this.state.gaps === "1");
    if (seen) this.view.set(this.axis, ...seen.map((at) => this.axis.place(at)));
  }

  // -- view -------------------------------------------------------------------------------------------------------------

  /** Show the view of the address. */
  goTo(state) {
    this.state = { ...state, tab: TABS.includes(state.tab) ? state.tab : DEFAULTS.tab };
    const number = (text) => (text !== "" && Number.isFinite(Number(text)) ? Number(text) : null);
    this.at = number(this.state.at);
    const [from, to] = [number(this.state.from), number(this.state.to)];
    this.view.range = null;
    this.newAxis();
    if (from !== null && to !== null && to > from) this.view.set(this.axis, this.axis.place(from), this.axis.place(to));
    for (const name of ["sort", "group"]) {
      $(name).value = this.state[name];
      this.state[name] = $(name).value ||= DEFAULTS[name];
    }
    $("search").value = this.state.q;
    for (const name of ["gaps", "only"]) $(name).checked = this.state[name] === "1";
    this.touch("rows", "picture", "detail", "alerts", "legend");
  }

  /** Change the view, and write it to the address. */
  change(more) {
    Object.assign(this.state, more);
    if ("gaps" in more) this.newAxis();
    this.look(() => {}, "rows", "detail", "legend", "alerts");
  }

  look(change, ...stale) {
    change();
    if (this.state.only === "1") stale.push("rows");
    const range = this.view.range && this.seen().map(Math.round);
    Object.assign(this.state, { from: String(range?.[0] ?? ""), to: String(range?.[1] ?? ""), at: String(this.at ?? "") });
    this.address.write(this.state);
    this.touch(...stale);
  }

  /** The instant of the picture: the chosen one; else now on a live page, and in a report the time at which most claims waited. */
  get instant() { return this.at ?? (this.model.live ? this.model.now : this.model.worst()); }

  scrub(at) {
    const within = Math.round(Math.min(Math.max(at, this.model.since), this.model.now));
    this.look(() => {
      this.at = this.model.live && within >= this.model.now ? null : within;
      const place = this.axis.place(within), from = this.view.from(), to = this.view.to(this.axis);
      if (place < from || place > to) this.view.set(this.axis, place - (to - from) / 2, place + (to - from) / 2);
    }, "picture");
  }

  /** The first and the last visible instant. */
  seen = () => [this.view.from(), this.view.to(this.axis)].map((place) => this.axis.instant(place));

  zoom = (factor, place) => this.look(() => this.view.zoom(this.axis, factor, place));

  move = (by) => this.look(() => this.view.move(this.axis, by));

  get selection() {
    const [kind, ...rest] = this.state.sel.split(":");
    return this.state.sel ? { kind, key: rest.join(":") } : null;
  }

  keyOf = (thing) => (thing.kind === "claim" ? thing.uid : thing.name);

  isSelected = (row) => row.kind !== "group" && this.state.sel === `${row.thing.kind}:${this.keyOf(row.thing)}`;

  open(kind, key) {
    this.change({ sel: `${kind}:${key}` });
    $("detail").scrollTop = 0;
  }

  close() {
    this.change({ sel: "" });
    $("rows").focus();
  }

  // -- drawing ----------------------------------------------------------------------------------------------------------

  touch(...stale) {
    stale.forEach((part) => this.stale.add(part));
    if (!this.model.revision) return;
    this.frame ??= requestAnimationFrame(() => { this.frame = undefined; this.draw(); });
  }

  draw() {
    const { model, axis, view, state, stale } = this;
    const label = parseFloat(getComputedStyle($("board")).getPropertyValue("--label"));
    const palette = this.palette();
    if (stale.delete("rows")) this.showRows();
    const width = ($("rows").clientWidth || $("stage").clientWidth) - label;
    this.label = label;
    this.width = width;
    $("curves").style.width = `${width + label}px`;
    const shown = { label: (row) => this.labelOf(row), isSelected: this.isSelected };
    if (state.tab === "waits") {
      const place = fromZero(this.rows.longest, width), ticks = this.waitRuler(place, palette);
      this.rows.draw(model, place, palette, { marks: (context, height) => this.waitMarks(context, height, place, ticks, palette), ...shown });
    } else {
      for (const curves of this.curves) curves.draw(model, axis, view, label, palette);
      const from = view.from(), to = view.to(axis), time = overTime(axis, from, to, width);
      const ticks = axis.ticks(from, to, ((to - from) / width) * 90, model.start);
      this.ruler(time, ticks, palette);
      const marks = (context, height) => this.timeMarks(context, height, time, ticks, palette);
      if (state.tab === "claims" || state.tab === "devices") this.rows.draw(model, time, palette, { marks, ...shown });
      this.line(time);
    }
    if (!this.isPressed && stale.delete("picture")) refill($("picture"), this.panel.picture(this.instant));
    if (!this.isPressed && stale.delete("detail")) this.showDetail();
    if (state.tab === "alerts" && stale.delete("alerts")) this.showAlerts();
    if (stale.delete("legend")) this.showLegend();
  }

  showRows() {
    const { state } = this, isAlerts = state.tab === "alerts", isWaits = state.tab === "waits";
    for (const tab of TABS) {
      $(`tab-${tab}`).setAttribute("aria-selected", tab === state.tab);
      $(`tab-${tab}`).tabIndex = tab === state.tab ? 0 : -1;
    }
    $("panel").setAttribute("aria-labelledby", `tab-${state.tab}`);
    $("rows").setAttribute("aria-labelledby", `tab-${state.tab}`);
    $("sorting").hidden = state.tab === "devices" || isAlerts;
    $("grouping").hidden = state.tab !== "devices";
    // Durations have their own ruler, and no place on the axis of the time.
    for (const id of ["curves", "scrubber", "line", "cutting", "zoom"]) $(id).hidden = isWaits;
    $("ruler").hidden = !isWaits;
    $("within").hidden = isAlerts || isWaits;
    if (!isAlerts) {
      const rows = rowsOf(this.model, state, state.only === "1" && !isWaits ? this.seen() : undefined);
      this.rows.show(rows, isWaits ? rows.reduce((most, row) => Math.max(most, this.model.waited(row.thing)), 1) : 0);
    }
    const isEmpty = !isAlerts && !this.rows.rows.length;
    $("rows").hidden = isAlerts || isEmpty;
    $("alerts").hidden = !isAlerts;
    $("none").hidden = !isEmpty;
    const what = state.tab === "devices" ? "device" : "claim";
    $("none").textContent = state.q ? `nothing matches ${state.q.slice(0, 200)}` : `no ${what} was seen`;
    $("board").dataset.tab = state.tab;
  }

  labelOf(row) {
    if (!row.thing.spans) return [`${row.count}`, ""];
    if (row.kind === "device") {
      const span = this.model.spanAt(row.thing, this.instant);
      return [this.state.group === "model" ? row.thing.node : row.thing.model, span ? this.model.states[span.state] : ""];
    }
    const again = row.thing.attempts.length > 1 ? `${row.thing.attempts.length}×` : "";
    return [lengthOf(this.model.waited(row.thing)), `${row.thing.outcome} ${again}`.trim()];
  }

  showDetail() {
    const chosen = this.selection;
    this.panel.isFull = this.state.facts === "1";
    const told = chosen && this.panel.detail(chosen);
    $("detail").hidden = !chosen;
    refill($("detail"), told ?? (chosen ? [make("p", {}, "it is not in this page")] : []), this.detailed === this.state.sel);
    this.detailed = this.state.sel;
  }

  showAlerts() {
    const { model } = this;
    const about = (name) => {
      const claim = model.claims.find((one) => one?.name === name), device = model.devices.find((one) => one?.name === name);
      return claim ? this.panel.link("claim", claim.uid, name) : device ? this.panel.link("device", name, name) : name;
    };
    const found = model.alerts.filter(matching(this.state.q, (one) => model.wordsOfAlert(one)));
    const rows = found.map((one) => [this.panel.instant(one.at), one.reason, about(one.of), one.text]);
    const none = model.alerts.length ? `nothing matches ${this.state.q.slice(0, 200)}` : "no alert";
    $("alerts").replaceChildren(rows.length ? tableOf(["at", "reason", "about", "what it says"], rows) : make("p", {}, none));
  }

  showLegend() {
    const { model, state } = this, title = (text) => make("span", {}, make("b", {}, text));
    const chip = (kind, name, whose) => make("span", { title: whose }, make("i", { class: `chip ${kind}-${name}` }), name);
    const waits = model.stages.filter((_, n) => model.claims.some((one) => one?.spans.some((span) => span.stage === n)));
    const colours = state.tab === "devices" ? model.states.map((name) => chip("state", name))
      : [...waits.map(([name, whose]) => chip("stage", name, whose)), chip("stage", "bound")];
    const curves = ["claims", "devices", "pools"].flatMap((of) => model.curves(of)).map((one) => make("span", {},
      make("i", { class: `stroke ${one.colour}${one.dash ? " dashed" : ""}` }), one.least ? `free: ${one.name}` : one.name));
    if (model.morePools) curves.push(make("span", {}, `and ${model.morePools} more pools`));
    if (model.beside) curves.push(make("span", {}, `dotted: ${model.beside.log}`));
    $("legend").replaceChildren(...(state.tab === "waits" ? [] : [title("Curves "), ...curves]),
      ...(state.tab === "alerts" ? [] : [title("Bars "), ...colours]));
  }

  /** Draw the ruler: instants, alerts, and the handle. */
  ruler(time, { step, found }, palette) {
    const height = $("scrubber").clientHeight, context = cleared($("scrubber").querySelector("canvas"), this.width, height);
    context.fillStyle = palette.dim;
    let free = -Infinity;
    for (const at of found) {
      const x = time.x(at), text = timeOfDay(this.model.start + at, step);
      const long = context.measureText(text).width, left = Math.max(0, x - long / 2);
      context.fillRect(x, height - 5, 1, 5);
      if (left > free && left + long < this.width) context.fillText(text, left, height - 13), free = left + long + 8;
    }
    context.fillStyle = palette.alert;
    for (const { at } of this.model.alerts) triangle(context, time.x(at), 0, 5);
    context.fillStyle = palette.text;
    triangle(context, time.x(this.instant), height, -8);
    const seen = this.model.start + this.axis.instant(this.view.from());
    $("day").textContent = `${dayOf(seen)} UTC`;
    const slider = $("scrubber");
    slider.setAttribute("aria-valuemin", Math.round(this.model.since));
    slider.setAttribute("aria-valuemax", Math.round(this.model.now));
    slider.setAttribute("aria-valuenow", Math.round(this.instant));
    slider.setAttribute("aria-valuetext", `${this.time(this.instant)} UTC`);
  }

  timeMarks(context, height, time, { found }, palette) {
    context.fillStyle = palette.grid;
    for (const at of found) context.fillRect(time.x(at), 0, 1, height);
    let free = -Infinity;
    for (const gap of this.axis.cuts) {
      const x = time.x(gap.since), text = `⋯ ${lengthOf(gap.until - gap.since)}`, end = time.x(gap.until) + 3;
      context.fillStyle = palette.group;
      context.fillRect(x, 0, Math.max(2, end - 3 - x), height);
      context.fillStyle = palette.dim;
      if (end > free) context.fillText(text, end, height - 8), free = end + context.measureText(text).width + 8;
    }
    context.fillStyle = palette.alert;
    let last = -Infinity;
    for (const x of this.model.alerts.map((one) => time.x(one.at))) if (x >= last + 6) context.fillRect(x, 0, 1, height), last = x;
  }

  /** Draw the ruler of durations; gives the durations at its ticks. */
  waitRuler({ scale, width }, palette) {
    const canvas = $("ruler").querySelector("canvas"), height = $("ruler").clientHeight, context = cleared(canvas, width, height);
    const step = stepOf(90 / scale), found = Array.from({ length: Math.floor(width / (step * scale)) + 1 }, (_, n) => n * step);
    context.fillStyle = palette.dim;
    for (const long of found) {
      const text = long ? lengthOf(long) : "0", across = context.measureText(text).width, x = long * scale;
      context.fillRect(x, height - 5, 1, 5);
      context.fillText(text, Math.min(Math.max(0, x - across / 2), width - across), height - 13);
    }
    return found;
  }

  waitMarks(context, height, { scale }, ticks, palette) {
    context.fillStyle = palette.grid;
    for (const long of ticks) context.fillRect(long * scale, 0, 1, height);
  }

  line(time) {
    const x = time.x(this.instant);
    $("line").hidden = x < 0 || x > this.width + 1;
    $("line").style.transform = `translateX(${this.label + Math.min(x, this.width - 1)}px)`;
  }

  /** The page's colours, for canvases; on paper the light ones. */
  palette(onPaper = false) {
    const theme = document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    const key = onPaper ? "light" : theme, made = `${key}${this.model.revision > 0}`;
    this.palettes ??= {};
    return (this.palettes[made] ??= this.colours(key));
  }

  colours(key) {
    const probe = $("probe"), { model } = this;
    probe.style.colorScheme = key;
    const colour = (name) => {
      probe.style.color = `var(--${name}, var(--other))`;
      return getComputedStyle(probe).color;
    };
    const names = ["text", "dim", "grid", "group", "selected", "edge", "on-bar", "alert", "attached", "used-fill", "line-0", "line-1", "line-2"];
    const named = Object.fromEntries(names.map((name) => [name.replace(/-[a-z]/, (two) => two[1].toUpperCase()), colour(name)]));
    const hatched = getComputedStyle(document.documentElement).getPropertyValue("--hatched").split(" ");
    const stages = [...(model.stages ?? []).map(([name]) => name), "bound"];
    const [used, idle] = ["state-used", "state-idle"].map(colour), stageColours = stages.map((name) => colour(`stage-${name}`));
    const fills = stageColours.map((one, n) => (hatched.includes(stages[n]) ? hatching(one, named.edge) : one));
    return { key, ...named, used, idle, stages: stageColours, fills, states: (model.states ?? []).map((name) => colour(`state-${name}`)) };
  }

  // -- input ------------------------------------------------------------------------------------------------------------

  listen() {
    const redraw = () => this.touch();
    new ResizeObserver(redraw).observe($("stage"));
    $("rows").addEventListener("scroll", redraw, { passive: true });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
    for (const tab of TABS) $(`tab-${tab}`).addEventListener("click", () => this.change({ tab }));
    $("tabs").addEventListener("keydown", (event) => this.tabKey(event));
    for (const name of ["sort", "group"]) $(name).addEventListener("change", () => this.change({ [name]: $(name).value }));
    $("search").addEventListener("input", () => { $("rows").scrollTop = 0; this.change({ q: $("search").value }); });
    for (const name of ["gaps", "only"]) $(name).addEventListener("change", () => this.change({ [name]: $(name).checked ? "1" : "" }));
    $("in").addEventListener("click", () => this.zoom(1 / ZOOM));
    $("out").addEventListener("click", () => this.zoom(ZOOM));
    $("whole").addEventListener("click", () => this.look(() => { this.view.range = null; }));
    $("theme").addEventListener("click", () => this.switchTheme());
    $("rows").addEventListener("keydown", (event) => this.rowKey(event));
    $("rows").addEventListener("click", (event) => this.clickRow(event));
    $("scrubber").addEventListener("keydown", (event) => this.scrubKey(event));
    document.addEventListener("keydown", (event) => this.anyKey(event));
    // Do not replace a pressed element before its release: there would be no click.
    $("picture").addEventListener("pointerdown", () => { this.isPressed = true; });
    $("detail").addEventListener("pointerdown", () => { this.isPressed = true; });
    for (const end of ["pointerup", "pointercancel"]) window.addEventListener(end, () => { this.isPressed = false; this.touch(); });
    $("told").addEventListener("click", ({ target }) => { if (target.dataset.claim) this.open("claim", target.dataset.claim); });
    window.addEventListener("beforeprint", () => { $("summary").open = true; preparePrint($("print"), this); });
    window.addEventListener("afterprint", () => { $("print").hidden = true; });
    this.palette();
    this.themeWord();
    this.listenToPointers();
  }

  listenToPointers() {
    const canvas = this.rows.canvas;
    drags(canvas, {
      moved: (dx, dy) => {
        if (this.state.tab !== "waits") this.move((-dx / this.width) * (this.view.to(this.axis) - this.view.from()));
        if (dy) $("rows").scrollTop -= dy;
      },
      pinched: (ratio, x, to) => {
        if (this.state.tab === "waits") return;
        this.zoom(1 / ratio, this.placeAt(x));
        this.move(this.placeAt(x) - this.placeAt(to));
      },
    });
    drags($("scrubber"), { begun: (x) => this.scrubTo(x), moved: (dx, dy, x) => this.scrubTo(x) });
    for (const element of [canvas, $("curves"), $("scrubber")]) {
      element.addEventListener("wheel", (event) => this.wheel(event, element === canvas), { passive: false });
    }
    canvas.addEventListener("pointermove", (event) => this.tip(event));
    canvas.addEventListener("pointerleave", () => { $("tip").hidden = true; });
  }

  placeAt(x) {
    const from = this.view.from(), to = this.view.to(this.axis);
    return from + ((x - $("stage").getBoundingClientRect().left - this.label) / this.width) * (to - from);
  }

  scrubTo(x) { this.scrub(this.axis.instant(this.placeAt(x))); }

  wheel(event, isRows) {
    const isZoom = event.ctrlKey || event.metaKey || !isRows;
    const isAcross = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if ((!isZoom && !isAcross) || (isRows && this.state.tab === "waits")) return;
    event.preventDefault();
    const by = event.deltaX || event.deltaY;
    if (isAcross && !event.ctrlKey) this.move((by / this.width) * (this.view.to(this.axis) - this.view.from()));
    else this.zoom(Math.exp(event.deltaY * (event.deltaMode ? 0.05 : 0.002)), this.placeAt(event.clientX));
  }

  tip(event) {
    const tip = $("tip"), box = this.rows.canvas.getBoundingClientRect();
    const found = event.buttons ? undefined : this.rows.barAt(this.model, event.clientX - box.left, event.clientY - box.top);
    tip.hidden = !found;
    if (!found) return;
    const { row, span } = found, { model } = this;
    const claims = (span.claims ?? []).map((n) => model.claims[n]?.name.slice(0, 80)).join(", ");
    const what = row.kind === "claim" ? model.stages[span.stage]?.[1] ?? "in use" : model.states[span.state] + (claims && ` by ${claims}`);
    const when = `${lengthOf(model.end(span) - span.since)} from ${this.time(span.since)}`;
    tip.textContent = [`${row.text.slice(0, 80)}: ${what}`, when, span.node].filter(Boolean).join(", ");
    tip.style.left = `${Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8)}px`;
  }

  clickRow(event) {
    if (this.rows.canvas.dragged) return;
    const row = this.rows.at(event.clientY - $("rows").getBoundingClientRect().top);
    if (!row) return;
    this.rows.current = this.rows.rows.indexOf(row);
    this.openRow(row);
  }

  openRow(row) {
    if (row.kind !== "group") this.open(row.thing.kind, this.keyOf(row.thing));
    else this.touch();
  }

  rowKey(event) {
    const page = Math.max(1, Math.floor($("rows").clientHeight / ROW) - 1), { rows } = this;
    const across = (this.view.to(this.axis) - this.view.from()) / 8;
    const keys = {
      ArrowDown: () => rows.choose(rows.current + 1), ArrowUp: () => rows.choose(rows.current - 1),
      PageDown: () => rows.choose(rows.current + page), PageUp: () => rows.choose(rows.current - page),
      Home: () => rows.choose(0), End: () => rows.choose(rows.rows.length - 1),
      ArrowLeft: () => this.move(-across), ArrowRight: () => this.move(across),
      "+": () => this.zoom(1 / ZOOM), "=": () => this.zoom(1 / ZOOM), "-": () => this.zoom(ZOOM),
      0: () => this.look(() => { this.view.range = null; }),
      Enter: () => { this.openRow(rows.rows[rows.current]); this.draw(); $("detail").focus(); },
    };
    this.pressed(event, keys);
  }

  scrubKey(event) {
    const step = (this.view.to(this.axis) - this.view.from()) / 100;
    const by = (places) => this.scrub(this.axis.instant(this.axis.place(this.instant) + places));
    const keys = {
      ArrowLeft: () => by(-step), ArrowDown: () => by(-step), ArrowRight: () => by(step), ArrowUp: () => by(step),
      PageUp: () => by(10 * step), PageDown: () => by(-10 * step),
      Home: () => this.scrub(this.model.since), End: () => this.scrub(this.model.now),
      "+": () => this.zoom(1 / ZOOM), "=": () => this.zoom(1 / ZOOM), "-": () => this.zoom(ZOOM),
    };
    this.pressed(event, keys);
  }

  tabKey(event) {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const tab = TABS[(TABS.indexOf(this.state.tab) + by + TABS.length) % TABS.length];
    this.change({ tab });
    $(`tab-${tab}`).focus();
  }

  anyKey(event) {
    if (event.key === "Escape" && this.state.sel) this.close();
    if (event.key !== "/" || /^(INPUT|SELECT)$/.test(event.target.tagName)) return;
    event.preventDefault();
    $("search").focus();
  }

  pressed(event, keys) {
    const act = event.ctrlKey || event.metaKey || event.altKey ? undefined : keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
    this.touch();
  }

  switchTheme() {
    document.documentElement.dataset.theme = this.palette().key === "dark" ? "light" : "dark";
    this.themeWord();
    this.touch();
  }

  themeWord() { $("theme").textContent = this.palette().key === "dark" ? "Light" : "Dark"; }
}

/** Replace the content. If it is of the same thing, keep what is open, the focus (by position) and the scroll position. */
function refill(element, children, isSame = true) {
  const open = [...element.querySelectorAll("details")].map((one) => one.open);
  const focusable = () => [...element.querySelectorAll("button, summary, input")];
  const at = focusable().indexOf(document.activeElement), top = element.scrollTop;
  element.replaceChildren(...children);
  if (!isSame) return;
  [...element.querySelectorAll("details")].forEach((one, n) => { one.open = open[n] ?? false; });
  if (at >= 0) (focusable()[at] ?? element).focus({ preventScroll: true });
  element.scrollTop = top;
}

/** A pattern of a colour with thin oblique lines. */
function hatching(colour, line) {
  const tile = document.createElement("canvas"), context = tile.getContext("2d");
  tile.width = tile.height = 6;
  context.fillStyle = colour;
  context.fillRect(0, 0, 6, 6);
  context.strokeStyle = line;
  for (const x of [-6, 0, 6]) context.moveTo(x - 1, 7), context.lineTo(x + 7, -1);
  context.stroke();
  return context.createPattern(tile, "repeat");
}

function triangle(context, x, y, size) {
  context.beginPath();
  context.moveTo(x - Math.abs(size) * 0.7, y);
  context.lineTo(x + Math.abs(size) * 0.7, y);
  context.lineTo(x, y + size * 1.4);
  context.fill();
}

/** One pointer drags, two pinch (factor of their distance; middle before and after). `dragged`: the click at the end ended a drag. */
function drags(element, { begun, moved, pinched }) {
  const pointers = new Map();
  element.addEventListener("pointerdown", (event) => {
    if (event.button > 0) return;
    if (!pointers.size) element.dragged = false, element.travelled = 0;
    pointers.set(event.pointerId, [event.clientX, event.clientY]);
    begun?.(event.clientX);
  });
  element.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) return;
    const dx = event.clientX - before[0], dy = event.clientY - before[1];
    element.travelled += Math.abs(dx) + Math.abs(dy);
    if (element.travelled > TAP && !element.dragged) element.dragged = true, element.setPointerCapture(event.pointerId);
    const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
    pointers.set(event.pointerId, [event.clientX, event.clientY]);
    if (!other) return void moved(dx, event.pointerType === "touch" ? 0 : dy, event.clientX);
    const far = (point) => Math.hypot(point[0] - other[0], point[1] - other[1]) || 1;
    pinched?.(far([event.clientX, event.clientY]) / far(before), (before[0] + other[0]) / 2, (event.clientX + other[0]) / 2);
  });
  for (const end of ["pointerup", "pointercancel"]) element.addEventListener(end, (event) => pointers.delete(event.pointerId));
}

/** The data in the page; undefined on a live page. */
async function embedded() {
  const text = $("data")?.textContent;
  if (!text) return undefined;
  const raw = atob(text), bytes = new Uint8Array(raw.length);
  for (let n = 0; n < raw.length; n += 1) bytes[n] = raw.charCodeAt(n);
  const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(plain).text());
}

const page = new Page();
window.dds = page;
embedded().then((patch) => (patch ? page.take(patch) : new Live(page).run()), (error) => {
  const why = "was the file cut off? Or the browser is older than 2024.";
  $("span").textContent = `The data of this page cannot be read (${error.message}): ${why}`;
});
