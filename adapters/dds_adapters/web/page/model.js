// The page's data. All of it comes in by `Model.take`: the one patch of a report, or each patch that a live page receives.

/** @typedef {{stage: number, since: number, until: number|null, node: string}} Span  a stage of a wait, or in use */
/** @typedef {{since: number, until: number|null, node: string, outcome: string, reason: string, cause: string}} Attempt */
/** @typedef {{kind: "claim"|"device"|"node", key: string}} Selection  a claim by uid, a device or node by name */

/** Show invisible characters, also those that change the direction of text, by their number, so that no name can look like another. */
const visible = (text) => text.replace(/[\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g, escaped);
const escaped = (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`;

class Model {
  constructor() {
    this.now = 0;
    this.revision = 0;
    this.clear();
  }

  clear() {
    this.strings = [];
    this.claims = [];
    this.devices = [];
    this.alerts = [];
    this.stock = new Map();
    this.accounts = new Map();
    this.beside = undefined;
  }

  /** Take in a patch (`dds_core.scaler.history.page`). The first one is complete, and so is one with `anew`. */
  take(patch) {
    if (patch.anew) this.clear();
    for (const text of patch.strings ?? []) this.strings.push(visible(text));
    for (const field of ["version", "start", "log", "dds", "summary", "stages", "states", "since", "untold", "live", "now"]) {
      if (patch[field] !== undefined) this[field] = patch[field];
    }
    for (const row of patch.claims ?? []) this.claims[row[0]] = this.claim(row);
    for (const row of patch.devices ?? []) this.devices[row[0]] = this.device(row);
    for (const [at, ...texts] of patch.alerts ?? []) {
      const [of, reason, text] = texts.map(this.text);
      this.alerts.push({ at, of, reason, text });
    }
    for (const [at, pool, free] of patch.stock ?? []) {
      const name = this.text(pool);
      if (!this.stock.has(name)) this.stock.set(name, { times: [], values: [] });
      this.stock.get(name).times.push(at);
      this.stock.get(name).values.push(free);
    }
    for (const row of patch.accounts ?? []) {
      const kind = this.text(row[0]), key = kind === "claim" ? this.claims[row[1]].uid : this.text(row[1]);
      this.accounts.set(`${kind}:${key}`, this.account(row));
    }
    if (patch.beside) (this.beside = new Model()).take(patch.beside);
    this.revision += 1;
    this.later();
  }

  /** Data or time changed: drop what was computed from them. */
  later() {
    this.known = undefined;
    this.swept = undefined;
  }

  text = (number) => this.strings[number] ?? "";

  claim([number, uid, name, pods, outcome, cause, first, gone, flat, attempts]) {
    const spans = [];
    for (let n = 0; n < flat.length; n += 4) {
      spans.push({ stage: flat[n], since: flat[n + 1], until: flat[n + 2], node: this.text(flat[n + 3]) });
    }
    const made = attempts.map(([since, until, node, ended, reason, why, models]) => ({
      since, until, node: this.text(node), outcome: this.text(ended), reason: this.text(reason), cause: this.text(why),
      models: models.map(this.text),
    }));
    return {
      kind: "claim", number, uid: this.text(uid), name: this.text(name), pods: pods.map(this.text), outcome: this.text(outcome),
      cause: this.text(cause), first, gone, spans, attempts: made, node: made.at(-1)?.node ?? "", origin: spans[0]?.since ?? first,
    };
  }

  device([number, uid, name, resource, node, model, fabric, first, gone, spans]) {
    return {
      kind: "device", number, uid: this.text(uid), name: this.text(name), resource: this.text(resource), node: this.text(node),
      model: this.text(model), fabric: this.text(fabric), first, gone,
      spans: spans.map(([state, since, until, claims]) => ({ state, since, until, claims })),
    };
  }

  /** A timeline; `text` looks up its strings, by default in the page's. */
  account([, , head, entries], text = this.text) {
    return { head: head.map(text), entries: entries.map((row) => this.entry(row, text)) };
  }

  entry([at, kind, name, trigger, from, to, after, cause, flat], text) {
    const notes = [];
    for (let n = 0; n < flat.length; n += 3) notes.push({ at: flat[n], kind: text(flat[n + 1]), text: text(flat[n + 2]) });
    return {
      at, kind: text(kind), name: text(name), trigger: text(trigger), from: text(from), to: text(to), after, cause: text(cause), notes,
    };
  }

  // -- for the drawing ------------------------------------------------------------------------------------------------

  /** Number of the stage in which a claim is in use; all stages before it are parts of a wait. */
  get bound() { return this.stages.length; }

  stageName = (stage) => this.stages[stage]?.[0] ?? "bound";

  end = (span) => span.until ?? this.now;

  /** Milliseconds of all waits until `at`. */
  waited(claim, at = this.now) {
    let sum = 0;
    for (const span of claim.spans) {
      if (span.stage !== this.bound) sum += Math.max(0, Math.min(this.end(span), at) - span.since);
    }
    return sum;
  }

  // -- what a search looks at, in lower case; made once for each thing --------------------------------------------------

  wordsOfClaim(one) {
    return (one.words ??= [
      one.name, one.uid, one.outcome, one.cause, ...one.pods, ...one.spans.flatMap((span) => [span.node, this.stageName(span.stage)]),
      ...one.attempts.flatMap((attempt) => [attempt.node, attempt.outcome, attempt.reason, attempt.cause, ...attempt.models]),
    ].join("\n").toLowerCase());
  }

  /** Also what its claims are found by. */
  wordsOfDevice(one) {
    const claims = new Set(one.spans.flatMap((span) => span.claims));
    return [one.name, one.resource, one.uid, one.node, one.model, one.fabric, ...one.spans.map((span) => this.states[span.state]),
      ...[...claims].flatMap((n) => this.causesOf(this.claims[n]))].join("\n").toLowerCase();
  }

  causesOf = (claim) => (claim ? [claim.name, ...claim.attempts.flatMap((attempt) => [attempt.reason, attempt.cause])] : []);

  /** Also what the claim or device is found by that it is about. */
  wordsOfAlert(one) {
    const claim = this.claims.find((other) => other?.name === one.of), device = this.devices.find((other) => other?.name === one.of);
    const about = claim ? this.wordsOfClaim(claim) : device ? this.wordsOfDevice(device) : "";
    return `${one.of}\n${one.reason}\n${one.text}`.toLowerCase() + about;
  }

  spanAt = (thing, at) => thing.spans.find((span) => span.since <= at && at < (span.until ?? Infinity));

  /** Numbers of claims by stage and of devices by state at an instant, the stock of the pools, and the waiting claims, longest wait first. */
  picture(at) {
    const stages = new Array(this.bound + 1).fill(0), states = new Array(this.states.length).fill(0), waiting = [];
    for (const claim of this.claims) {
      const span = claim && this.spanAt(claim, at);
      if (!span) continue;
      stages[span.stage] += 1;
      if (span.stage !== this.bound) waiting.push({ claim, span, waited: this.waited(claim, at) });
    }
    for (const device of this.devices) {
      const span = device && this.spanAt(device, at);
      if (span) states[span.state] += 1;
    }
    return { stages, states, stock: this.stockAt(at), waiting: waiting.sort((one, other) => other.waited - one.waited) };
  }

  /** The instants of all changes, in order. */
  instants() {
    if (!this.known) {
      const found = [this.since, this.now, ...this.alerts.map((one) => one.at)];
      for (const thing of [...this.claims, ...this.devices]) {
        for (const span of thing?.spans ?? []) found.push(span.since, this.end(span));
      }
      this.known = Float64Array.from(found).sort();
    }
    return this.known;
  }

  /** The curves of claims, devices or pools: name, colour and so on, `times`, the number from each on, and the highest and lowest. */
  curves(of) {
    this.swept ??= [...this.sweep(), ...this.pools()];
    return this.swept.filter((one) => one.of === of);
  }

  /** The stock of each pool; of many pools those that had least. */
  pools() {
    const found = [...this.stock].map(([name, { times, values }]) => ({
      name, times, values, of: "pools", width: 1.75, least: true, ...ends(values),
    }));
    found.sort((one, other) => one.low - other.low || (one.name < other.name ? -1 : 1));
    this.morePools = Math.max(0, found.length - MOST_POOLS);
    return found.slice(0, MOST_POOLS).map((one, n) => ({ ...one, colour: `line-${n % 3}`, dash: n < 3 ? undefined : [6, 3] }));
  }

  /** What each pool has free at an instant, as [name, number]; nothing of a pool that was not known yet. */
  stockAt(at) {
    return [...this.stock].flatMap(([name, { times, values }]) => {
      const next = firstAfter(times, at);
      return next ? [[name, values[next - 1]]] : [];
    });
  }

  /** The middle of the longest period in which the most claims waited. */
  worst() {
    const [waiting] = this.curves("claims");
    return (waiting.worst ??= this.longestWait(waiting));
  }

  longestWait({ times, values }) {
    let most = 0, longest = 0, found = this.now;
    times.forEach((at, n) => {
      const since = Math.max(at, this.since), until = times[n + 1] ?? this.now, long = until - since;
      if (!values[n] || values[n] < most || (values[n] === most && long <= longest) || long <= 0) return;
      [most, longest, found] = [values[n], long, (since + until) / 2];
    });
    return found;
  }

  sweep() {
    const [used, idle] = [this.states.indexOf("used"), this.states.indexOf("idle")];
    const changes = [];
    const add = (span, ...series) => {
      changes.push([span.since, 1, series]);
      if (span.until !== null) changes.push([span.until, -1, series]);
    };
    for (const device of this.devices) {
      for (const span of device?.spans ?? []) add(span, 1, ...(span.state === used ? [2] : span.state === idle ? [3] : []));
    }
    for (const claim of this.claims) {
      for (const span of claim?.spans ?? []) if (span.stage !== this.bound) add(span, 0);
    }
    changes.sort((one, other) => one[0] - other[0]);
    const times = [], values = [[], [], [], []], count = [0, 0, 0, 0];
    for (const [at, by, series] of changes) {
      for (const one of series) count[one] += by;
      if (times.at(-1) === at) times.pop(), values.forEach((list) => list.pop());
      times.push(at);
      values.forEach((list, n) => list.push(count[n]));
    }
    return SERIES.map((one, n) => ({ ...one, times, values: values[n], ...ends(values[n]) }));
  }
}

/** The highest and the lowest of some numbers. */
const ends = (values) => values.reduce(({ peak, low }, one) => ({ peak: Math.max(peak, one), low: Math.min(low, one) }), { peak: 0, low: Infinity });
