// The panel beside the rows: the picture at an instant, and the history of the selection. Data are set as text, never as HTML.

/** An element with these attributes and children; strings become text. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== undefined && child !== null));
  return element;
}

const NOTES = { fact: "·", act: "×", decision: "▸", erased: "○" };
const MOST_WAITING = 12;

/** A table of these headings and rows; cells are texts or elements. */
const tableOf = (headings, rows) => make("table", {},
  make("thead", {}, make("tr", {}, ...headings.map((text) => make("th", { scope: "col" }, text)))),
  make("tbody", {}, ...rows.map((cells) => make("tr", {}, ...cells.map((cell) => make("td", {}, cell))))));

class Panel {
  /** `open` selects a thing by kind and key, `go` goes to an instant, `time` formats one, `ask` requests a timeline if possible. */
  constructor(model, { open, go, time, ask, close, facts }) {
    Object.assign(this, { model, open, go, time, ask, close, facts });
  }

  link = (kind, key, text) => make("button", { type: "button", class: "link", click: () => this.open(kind, key) }, text);

  instant = (at) => make("button", {
    type: "button", class: "link time", title: "Show the picture at this instant", click: () => this.go(at),
  }, this.time(at));

  long = (span) => lengthOf(this.model.end(span) - span.since);

  // -- the picture at an instant ----------------------------------------------------------------------------------------

  picture(at) {
    const { stages, states, stock, waiting } = this.model.picture(at);
    const counts = (numbers, name, kind) => make("ul", { class: "chips" }, ...numbers.flatMap((number, n) => (number
      ? [make("li", {}, make("i", { class: `chip ${kind}-${name(n)}` }), `${number} ${name(n)}`)] : [])));
    const rows = waiting.slice(0, MOST_WAITING).map(({ claim, span, waited }) => [
      this.link("claim", claim.uid, claim.name), this.model.stageName(span.stage), lengthOf(waited)]);
    const rest = waiting.length - rows.length;
    const none = (list) => (list.childElementCount ? list : make("p", { class: "dim" }, "none"));
    return [
      make("h2", { id: "picture-title" }, `At ${this.time(at)}`),
      make("h3", {}, "Claims"), none(counts(stages, this.model.stageName, "stage")),
      make("h3", {}, "Devices"), none(counts(states, (n) => this.model.states[n], "state")),
      stock.length ? make("h3", {}, "Free in the pools") : undefined,
      stock.length ? make("ul", { class: "chips" }, ...stock.map(([name, free]) => make("li", {}, make("b", {}, String(free)), ` ${name}`)))
        : undefined,
      make("h3", {}, "Waiting"),
      rows.length ? tableOf(["claim", "for", "so far"], rows) : make("p", { class: "dim" }, "nobody waits"),
      rest > 0 ? make("p", { class: "dim" }, `and ${rest} more`) : undefined,
    ].filter(Boolean);
  }

  // -- the selection ----------------------------------------------------------------------------------------------------

  /** Details of the selection; undefined if it does not exist. */
  detail({ kind, key }) {
    const told = kind === "claim" ? this.claim(key) : kind === "device" ? this.devices(key) : this.node(key);
    if (!told) return undefined;
    const [name, ...rest] = told;
    return [
      make("button", { type: "button", class: "close", "aria-label": "Close", click: this.close }, "✕"),
      make("h2", {}, make("small", {}, `${kind} `), name),
      ...rest, ...this.timeline(kind, key),
    ].filter(Boolean);
  }

  claim(uid) {
    const claim = this.model.claims.find((one) => one?.uid === uid);
    if (!claim) return undefined;
    const { model } = this;
    const head = model.accounts.get(`claim:${uid}`)?.head ?? [];
    const first = head.length ? head : [`${claim.outcome}, waited ${lengthOf(model.waited(claim))}`, claim.cause].filter(Boolean);
    const mine = model.devices.filter((one) => one?.spans.some((span) => span.claims.includes(claim.number)));
    return [
      claim.name,
      make("ul", { class: "head" }, ...first.map((text) => make("li", {}, text))),
      make("p", { class: "dim" }, `uid ${uid}`, claim.pods.length ? `; pod ${claim.pods.join(", ")}` : ""),
      this.links("Devices", "device", mine.map((one) => one.name)),
      this.links("Nodes", "node", claim.attempts.map((one) => one.node)),
      make("details", {}, make("summary", {}, `Stages (${claim.spans.length})`), tableOf(["from", "stage", "length", "node"],
        claim.spans.map((span) => [this.instant(span.since), model.stageName(span.stage), this.long(span), span.node]))),
    ];
  }

  devices(name) {
    const found = this.model.devices.filter((one) => one?.name === name);
    if (!found.length) return undefined;
    const { model } = this;
    const head = model.accounts.get(`device:${name}`)?.head ?? found.map((one) => `${one.model} on ${one.node}`);
    const held = found.flatMap((one) => one.spans.flatMap((span) => span.claims)).map((n) => model.claims[n]).filter(Boolean);
    const spans = found.flatMap((one) => one.spans.map((span) => [this.instant(span.since), model.states[span.state],
      this.long(span), span.claims.map((n) => model.claims[n]?.name ?? "").join(", ")]));
    return [
      name,
      make("ul", { class: "head" }, ...head.map((text) => make("li", {}, text))),
      make("p", { class: "dim" }, `resource ${found.map((one) => one.resource).join(", ")}; fabric ${found[0].fabric || "not told"}`),
      this.links("Claims", "claim", held.map((one) => one.uid), (uid) => held.find((one) => one.uid === uid).name),
      this.links("Nodes", "node", found.map((one) => one.node)),
      make("details", {}, make("summary", {}, `States (${spans.length})`), tableOf(["from", "state", "length", "claim"], spans)),
    ];
  }

  node(name) {
    const devices = this.model.devices.filter((one) => one?.node === name);
    const claims = this.model.claims.filter((one) => one?.spans.some((span) => span.node === name));
    if (!devices.length && !claims.length) return undefined;
    return [
      name,
      this.links("Devices", "device", devices.map((one) => one.name)),
      this.links("Claims", "claim", claims.map((one) => one.uid), (uid) => claims.find((one) => one.uid === uid).name),
    ];
  }

  links(title, kind, keys, name = (key) => key) {
    const found = [...new Set(keys)].filter(Boolean);
    if (!found.length) return undefined;
    const shown = found.slice(0, 40).flatMap((key, n) => [n ? ", " : "", this.link(kind, key, name(key))]);
    return make("p", {}, `${title}: `, ...shown, found.length > 40 ? ` and ${found.length - 40} more` : "");
  }

  // -- its timeline -----------------------------------------------------------------------------------------------------

  timeline(kind, key) {
    const account = this.model.accounts.get(`${kind}:${key}`);
    const title = make("h3", {}, "What happened");
    if (!account && this.ask?.(kind, key)) return [title, make("p", { class: "dim" }, "reading its timeline")];
    if (account?.failed) return [title, make("p", { class: "dim" }, account.failed)];
    if (!account) {
      const name = kind === "claim" ? this.model.claims.find((one) => one?.uid === key)?.name : key;
      return [title, make("p", { class: "dim" }, "Its timeline is not in this page, which holds those of what waited longest or was not "
        + `served (${this.model.untold} are left out). Ask for it: dds timeline ${name}`)];
    }
    const facts = make("input", { type: "checkbox", id: "facts", change: (event) => this.facts(event.target.checked) });
    facts.checked = this.isFull;
    const list = make("ol", { class: "entries" }), entries = this.isFull ? account.entries : this.essence(account.entries);
    const runs = kind === "claim" ? this.runs(key) : [];
    let open;
    for (const entry of entries) {
      const run = runs.find((one) => one.since <= entry.at && entry.at <= one.until);
      if (!run) open = undefined;
      else if (open?.run !== run) {
        open = { run, list: make("ol", { class: "entries" }) };
        list.append(make("li", {}, make("details", {}, make("summary", {}, `${this.time(run.since)} ${run.words}`), open.list)));
      }
      (open?.list ?? list).append(this.entry(entry, kind));
    }
    return [title, make("label", {}, facts, " every fact and decision"), list];
  }

  /** The changes; if dds acts, also its decisions and the acts of others in its place, as in the command line. */
  essence(entries) {
    const decided = (kind, text) => kind === "decision" && text.startsWith("dds decided");
    const acts = entries.some((one) => decided(one.kind, one.cause) || one.notes.some((note) => decided(note.kind, note.text)));
    const kinds = acts ? ["act", "decision", "erased"] : ["erased"];
    const stays = (one) => one.from === one.to && !one.trigger.startsWith("allocated");
    return entries.map((one) => ({ ...one, notes: one.notes.filter((note) => kinds.includes(note.kind)) }))
      .filter((one) => one.notes.length || (one.from ? !stays(one) : one.kind === "decision" && acts));
  }

  /** Consecutive attempts of a claim with the same end. */
  runs(uid) {
    const claim = this.model.claims.find((one) => one?.uid === uid), found = [];
    for (const one of claim?.attempts ?? []) {
      const last = found.at(-1);
      if (last?.outcome === one.outcome && last.reason === one.reason) last.attempts.push(one);
      else found.push({ outcome: one.outcome, reason: one.reason, attempts: [one] });
    }
    return found.filter((run) => run.outcome && run.attempts.length > 1).map((run) => {
      const nodes = [...new Set(run.attempts.map((one) => one.node))].filter(Boolean).sort().join(", ");
      const last = run.attempts.at(-1), until = last.until ?? last.since;
      const what = `${run.attempts.length} × ${run.reason || run.outcome}${nodes && ` on ${nodes}`}`;
      return { since: run.attempts[0].since, until, words: `${what}, until ${this.time(until)}: ${last.cause}` };
    });
  }

  entry(entry, kind) {
    const { notes } = entry;
    const changed = entry.from && entry.from !== entry.to ? `${entry.from} → ${entry.to}` : entry.to && `${entry.to} (stays)`;
    const whose = kind !== entry.kind && entry.name ? `${entry.kind} ${entry.name} ` : "";
    return make("li", { class: entry.kind },
      this.instant(entry.at), " ", whose, changed ? make("b", {}, changed) : undefined,
      entry.after === null ? undefined : make("span", { class: "dim" }, ` after ${lengthOf(entry.after)}`),
      entry.cause ? make("span", { class: "cause" }, entry.cause) : undefined,
      notes.length ? make("ul", { class: "notes" }, ...notes.map((note) => make("li", { class: note.kind },
        make("span", { class: "dim" }, `${this.time(note.at)} ${NOTES[note.kind] ?? ""} `), note.text))) : undefined);
  }
}
