// Data of a live page: first all, then each change, as server-sent events. Read by fetch, because EventSource cannot send a token.

const SILENT = 15_000, AGAIN = [500, 1000, 2000, 5000], ACCOUNTS = 50;

class Live {
  constructor(page) {
    this.page = page;
    this.token = "";
    this.skew = 0;
    this.status = "";
    this.beat = null;
    this.lost = "";
    this.journey = 0;
    page.feed = this;
    $("live").hidden = false;
    $("earlier").addEventListener("click", () => this.goBack());
    $("return").addEventListener("click", () => this.returnToNow());
    setInterval(() => this.tick(), 1000);
  }

  /** Listen, and connect again after each end, until the page is closed. */
  async run() {
    for (let failed = 0; ; failed += 1) {
      const heard = await this.listen().catch((error) => { this.lost = `no connection (${error.message}); trying again`; return 0; });
      if (heard) failed = 0;
      this.tick();
      if (!this.isPast) await new Promise((go) => { setTimeout(go, AGAIN[Math.min(failed, AGAIN.length - 1)]); });
      while (this.isPast) await new Promise((go) => { this.resume = go; });
    }
  }

  /** One connection until its end; gives the number of received patches. */
  async listen() {
    this.stop = new AbortController();
    let heard = 0, rest = "", watch;
    const wake = () => { clearTimeout(watch); watch = setTimeout(() => this.stop.abort(), SILENT); };
    try {
      const reader = (await this.ask("events", this.stop.signal)).body.pipeThrough(new TextDecoderStream()).getReader();
      for (wake(); ; wake()) {
        const { value, done } = await reader.read();
        if (done) return heard;
        const parts = (rest + value).split("\n\n");
        rest = parts.pop();
        for (const part of parts) if (part.startsWith("data: ")) heard += 1, this.take(JSON.parse(part.slice(6)));
      }
    } catch (error) {
      if (this.isPast) return heard;
      throw error;
    } finally {
      clearTimeout(watch);
    }
  }

  /** The answer to a request; asks the reader for a token if the server requires one. */
  async ask(path, signal) {
    for (;;) {
      const headers = this.token ? { Authorization: `Bearer ${this.token}` } : {};
      const answer = await fetch(path, { headers, signal, cache: "no-store" });
      if (answer.ok) return answer;
      if (![401, 403].includes(answer.status) || location.protocol !== "https:") throw new Error((await answer.text()).trim());
      this.entrance ??= this.tokenFromReader(answer.status === 403 ? "This token may not see the page." : "");
      this.token = await this.entrance;
      this.entrance = undefined;
    }
  }

  tokenFromReader(why) {
    const form = $("entrance");
    form.hidden = false;
    $("refused").textContent = why;
    $("token").focus();
    return new Promise((go) => {
      form.onsubmit = (event) => {
        event.preventDefault();
        form.hidden = true;
        go($("token").value.trim());
        $("token").value = "";
      };
    });
  }

  take({ clock, status, beat, ...patch }) {
    if (this.isPast) return;
    this.lost = "";
    if (status !== undefined) this.status = status;
    if (beat !== undefined) this.beat = beat;
    if (patch.strings) this.page.take(patch), this.refresh(patch);
    if (patch.summary?.tiles) refill($("told"), summaryOf(patch.summary));
    if (clock !== undefined) this.skew = Date.now() - (this.page.model.start + clock);
    this.tick();
  }

  /** Move the time on, also without new data. */
  tick() {
    const { page } = this, { model } = page;
    const now = Date.now() - this.skew - model.start;
    this.tellBeat(now);
    if (this.isPast) return;
    this.tell(this.lost || this.status);
    if (!model.revision) return;
    $("earlier").hidden = !(model.since > 0);
    if (!model.live || this.lost || document.hidden) return;
    // Nothing is known of the time in which a running process would have written: bars end where it begins.
    const known = Math.max(model.now, Math.min(now, this.beat?.until ?? Infinity));
    if (known === model.now) return;
    model.now = known;
    page.later();
  }

  /** How long ago the newest event is. It changes each second, so it is no status that a screen reader reads out. */
  tellBeat(now) {
    const { beat } = this;
    $("beat").hidden = !beat || this.isPast || Boolean(this.lost);
    if ($("beat").hidden) return;
    const isDead = beat.until !== null && now > beat.until, seconds = Math.max(0, Math.floor((now - beat.last) / 1000));
    const ago = seconds < 60 ? `${seconds} s` : lengthOf(seconds * 1000);
    $("beat").textContent = (isDead ? beat.dead : beat.alive).replace("{ago}", ago);
    $("beat").classList.toggle("bad", isDead);
  }

  tell(text) {
    const said = text || (this.page.model.live ? "live" : "");
    if ($("live").textContent !== said) $("live").textContent = said;
    $("live").classList.toggle("bad", Boolean(text));
  }

  // -- timeline of the selection -----------------------------------------------------------------------------------------

  /** Request its timeline; false if none is available. */
  asks(kind, key) {
    if (!this.isPast) this.account(kind, key);
    return !this.isPast;
  }

  async account(kind, key) {
    const { model } = this.page, name = `${kind}:${key}`, { journey } = this;
    this.wanted = name;
    if (this.asked) return;
    this.asked = name;
    this.wanted = undefined;
    let told;
    try {
      const answer = await this.ask(`account?${new URLSearchParams({ kind, key })}`);
      const { strings, account } = await answer.json();
      told = model.account(account, (number) => visible(strings[number] ?? ""));
    } catch (error) {
      told = { head: [], entries: [], failed: error.message };
    }
    this.asked = undefined;
    if (journey !== this.journey) return;
    if (model.accounts.size >= ACCOUNTS) model.accounts.clear();
    model.accounts.set(name, told);
    this.page.touch("detail");
    const chosen = this.page.selection;
    if (this.wanted && chosen) this.account(chosen.kind, chosen.key);
  }

  refresh(patch) {
    const { page } = this, { model } = page, chosen = page.selection;
    if (!chosen) return;
    const changed = [...patch.claims.map(([n]) => model.claims[n]), ...patch.devices.map(([n]) => model.devices[n])];
    const { kind, key } = chosen;
    const concerns = (thing) => (kind === "node" ? thing.node === key : thing.kind === kind && page.keyOf(thing) === key);
    if (!patch.anew && !changed.some(concerns)) return;
    this.account(kind, key);
    page.touch("detail");
  }

  // -- older data ---------------------------------------------------------------------------------------------------------

  /** Show the data before those of the page; live data wait meanwhile. */
  async goBack() {
    const { page } = this, journey = this.journey += 1;
    this.isPast = true;
    this.stop?.abort();
    this.tell("reading what was before");
    $("return").hidden = false;
    try {
      const patch = await (await this.ask(`past?${new URLSearchParams({ before: page.model.since })}`)).json();
      if (journey !== this.journey) return;
      page.take(patch);
      refill($("told"), summaryOf(patch.summary));
      page.touch("detail");
      page.look(() => { page.view.range = null; page.at = null; }, "picture");
      this.tell("the time before");
      $("earlier").hidden = !(page.model.since > 0);
    } catch (error) {
      if (journey === this.journey) this.tell(error.message);
    }
  }

  returnToNow() {
    $("return").hidden = true;
    this.journey += 1;
    this.isPast = false;
    this.page.look(() => { this.page.view.range = null; this.page.at = null; }, "picture");
    this.resume?.();
  }
}

/** The summary (`dds_core.scaler.history.overview`) as elements; in a report they are there from the beginning. */
function summaryOf({ tiles, causes, notes }) {
  const link = (uid, text) => (uid ? make("button", { type: "button", class: "link", "data-claim": uid }, visible(text)) : visible(text));
  const claims = (number) => `${number} claim${number === 1 ? "" : "s"}`;
  return [
    make("dl", { id: "tiles" }, ...tiles.map((one) => make("div", { class: `tile${one.bad ? " bad" : ""}` },
      make("dt", {}, one.name), make("dd", {}, one.value), make("dd", { class: "note" }, link(one.claim, one.note))))),
    make("div", { id: "causes" }, make("h2", {}, "What the waiting was for"), make("ol", {}, ...causes.map((one) => make("li", {},
      make("b", {}, `${one.share} %`), " ", make("i", { class: `chip stage-${one.stage}` }), make("b", {}, one.stage),
      ` ${one.waited}, ${claims(one.claims)}: ${one.words} (longest `, link(one.uid, one.longest), ")")))),
    make("ul", { id: "notes" }, ...notes.map((text) => make("li", {}, visible(text)))),
  ];
}
