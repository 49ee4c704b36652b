// Claims or devices, one in each row: names on the left, bars on a canvas on the right. Only visible rows have elements.

const ROW = matchMedia("(pointer: coarse)").matches ? 34 : 24, LETTER = 6.2, TAIL = 9;

/** Whether a thing has all words of a search; `words` gives its text in lower case. */
function matching(search, words) {
  const wanted = search.toLowerCase().split(/\s+/).filter(Boolean);
  return wanted.length ? (one) => { const all = words(one); return wanted.every((word) => all.includes(word)); } : () => true;
}

/**
 * The rows of a tab, in order. With `seen`, a pair of instants: only rows with a bar between them.
 * @returns {{kind: string, thing: object, text: string}[]}
 */
function rowsOf(model, state, seen) {
  const isDevices = state.tab === "devices";
  const holds = matching(state.q, (one) => (isDevices ? model.wordsOfDevice(one) : model.wordsOfClaim(one)));
  const isSeen = (one) => one && (!seen || one.spans.some((span) => span.since <= seen[1] && model.end(span) >= seen[0]));
  const found = (isDevices ? model.devices : model.claims).filter((one) => isSeen(one) && holds(one));
  if (isDevices) return grouped(found, state.group);
  return found.sort(ordered(model, state.sort)).map((thing) => ({ kind: "claim", thing, text: thing.name }));
}

function ordered(model, by) {
  const waits = new Map(model.claims.filter(Boolean).map((one) => [one, model.waited(one)]));
  const longest = (one, other) => waits.get(other) - waits.get(one) || one.number - other.number;
  const orders = {
    waited: longest,
    origin: (one, other) => one.origin - other.origin,
    attempts: (one, other) => other.attempts.length - one.attempts.length,
  };
  const named = (one, other) => (one[by] < other[by] ? -1 : one[by] > other[by] ? 1 : 0);
  const order = orders[by] ?? named;
  return (one, other) => order(one, other) || longest(one, other);
}

/** Devices, grouped below a row for each node, fabric or model. */
function grouped(devices, by) {
  const groups = new Map();
  for (const one of devices) {
    const name = one[by] || "(none)";
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(one);
  }
  const rows = [];
  for (const name of [...groups.keys()].sort()) {
    const kind = by === "node" ? "node" : "group", things = groups.get(name);
    rows.push({ kind, thing: { kind: "node", name }, text: `${by} ${name}`, count: things.length });
    for (const thing of things) rows.push({ kind: "device", thing, text: thing.name });
  }
  return rows;
}

/** Positions of bars: `x` gives the pixel of an instant; with `scale`, waits are drawn end to end from zero instead. */
const overTime = (axis, from, to, width) => ({ width, x: (at) => ((axis.place(at) - from) / (to - from)) * width });
const fromZero = (longest, width) => ({ width, scale: width / (longest * 1.02 || 1) });

/** The visible bars of a row as [left, right, span]. */
function barsOf(row, model, place) {
  const bars = [];
  let sum = 0;
  for (const span of row.thing?.spans ?? []) {
    let left, right;
    if (place.scale) {
      if (span.stage === model.bound) continue;
      left = sum * place.scale;
      sum += model.end(span) - span.since;
      right = sum * place.scale;
    } else {
      left = place.x(span.since);
      right = place.x(model.end(span));
    }
    if (right >= 0 && left <= place.width) bars.push([Math.max(left, -2), Math.min(Math.max(right, left + 1), place.width + 2), span]);
  }
  return bars;
}

function paintRow(context, row, model, place, top, height, palette) {
  for (const [left, right, span] of barsOf(row, model, place)) {
    const held = row.kind === "claim" && span.stage === model.bound;
    const inset = held ? height * 0.36 : height * 0.18;
    context.fillStyle = row.kind === "claim" ? palette.fills[span.stage] : palette.states[span.state];
    context.fillRect(left, top + inset, right - left, height - 2 * inset);
    if (right - left > 3 && !held) {
      context.fillStyle = palette.edge;
      context.fillRect(left, top + inset, 1, height - 2 * inset);
    }
    const name = span.claims?.length ? span.claims.map((n) => model.claims[n]?.name ?? "").join(", ") : "";
    if (name && right - left > 70) paintText(context, name, left + 5, top + height / 2, right - left - 8, palette.onBar);
  }
}

/** Cut out the middle of a text so that about so many letters remain: names often differ in their ends only. */
function cutInMiddle(text, room) {
  if (text.length <= room) return text;
  const tail = Math.min(TAIL, Math.floor(room / 2));
  return `${text.slice(0, Math.max(0, room - tail - 1))}…${text.slice(text.length - tail)}`;
}

/** Cut a text by the number of its letters: clipping each text would cost more time than all other drawing. */
function paintText(context, text, x, y, width, colour) {
  context.fillStyle = colour;
  context.fillText(cutInMiddle(text, Math.floor(width / LETTER)), x, y, width);
}

/** Clear a canvas and give it the size in which it is shown. */
function cleared(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  return context;
}

class Rows {
  constructor(element) {
    this.element = element;
    this.tall = element.querySelector("#tall");
    this.canvas = element.querySelector("canvas");
    this.rows = [];
    this.current = 0;
    this.labels = [];
  }

  show(rows, longest) {
    this.longest = longest;
    const was = this.rows[this.current];
    this.rows = rows;
    const again = was ? rows.findIndex((row) => row.thing === was.thing && row.kind === was.kind) : -1;
    this.current = Math.max(0, again >= 0 ? again : Math.min(this.current, rows.length - 1));
  }

  /** The row at the vertical position `y` in the element. */
  at = (y) => this.rows[Math.floor((y + this.element.scrollTop) / ROW)];

  choose(index) {
    this.current = Math.min(Math.max(0, index), this.rows.length - 1);
    const top = this.current * ROW, { scrollTop, clientHeight } = this.element;
    if (top < scrollTop) this.element.scrollTop = top;
    else if (top + ROW > scrollTop + clientHeight) this.element.scrollTop = top + ROW - clientHeight;
  }

  draw(model, place, palette, { marks, label, isSelected }) {
    const height = this.element.clientHeight;
    this.tall.style.height = `${Math.max(this.rows.length * ROW, height)}px`;
    const scrolled = this.element.scrollTop, first = Math.floor(scrolled / ROW);
    const seen = Math.min(this.rows.length - first, Math.ceil(height / ROW) + 1);
    const context = cleared(this.canvas, place.width, height);
    this.place = place;
    for (let n = 0; n < seen; n += 1) {
      const row = this.rows[first + n], top = (first + n) * ROW - scrolled;
      if (isSelected(row) || !row.thing.spans) {
        context.fillStyle = isSelected(row) ? palette.selected : palette.group;
        context.fillRect(0, top, place.width, ROW);
      }
    }
    marks(context, height);
    for (let n = 0; n < seen; n += 1) paintRow(context, this.rows[first + n], model, place, (first + n) * ROW - scrolled, ROW, palette);
    this.name(first, seen, label, isSelected);
  }

  /** Write the names of the visible rows; elements are reused. */
  name(first, seen, label, isSelected) {
    while (this.labels.length < seen) {
      const element = make("div", { role: "option", class: "row" }, ...["name", "more", "why"].map((kind) => make("span", { class: kind })));
      this.tall.append(element);
      this.labels.push(element);
    }
    this.labels.forEach((element, n) => {
      element.hidden = n >= seen;
      if (n >= seen) return element.removeAttribute("id");
      const row = this.rows[first + n], [name, more, why] = element.children, texts = label(row);
      if (name.textContent !== row.text) {
        name.title = row.text;
        const letters = [...row.text], end = letters.length > TAIL + 2 ? letters.length - TAIL : letters.length;
        name.replaceChildren(...[letters.slice(0, end), letters.slice(end)].map((part) => make("span", {}, part.join(""))));
      }
      if (more.textContent !== texts[0]) more.textContent = texts[0];
      if (why.textContent !== texts[1]) why.textContent = texts[1];
      element.className = `row ${row.kind}`;
      element.style.top = `${(first + n) * ROW}px`;
      element.id = `row-${first + n}`;
      element.setAttribute("aria-posinset", first + n + 1);
      element.setAttribute("aria-setsize", this.rows.length);
      element.setAttribute("aria-selected", isSelected(row));
      element.classList.toggle("current", first + n === this.current);
    });
    const isThere = this.current >= first && this.current < first + seen;
    if (isThere) this.element.setAttribute("aria-activedescendant", `row-${this.current}`);
    else this.element.removeAttribute("aria-activedescendant");
  }

  /** The bar at a point of the canvas. */
  barAt(model, x, y) {
    const row = this.at(y);
    const found = row && this.place && barsOf(row, model, this.place).find(([left, right]) => left - 1 <= x && x <= right + 1);
    return found ? { row, span: found[2] } : undefined;
  }
}
