// The view (tab, selection, time range) in the fragment of the page's address, so that a sent link shows the same.

const DEFAULTS = { tab: "claims", sort: "waited", group: "node", q: "", sel: "", at: "", from: "", to: "", gaps: "", only: "", facts: "" };
const PATIENCE = 250;

class Address {
  constructor(changed) {
    this.last = location.hash;
    window.addEventListener("hashchange", () => {
      if (location.hash !== this.last) this.last = location.hash, changed(this.read());
    });
  }

  /** The state in the fragment, with defaults for the rest. */
  read() {
    const given = new URLSearchParams(location.hash.slice(1));
    return Object.fromEntries(Object.entries(DEFAULTS).map(([name, usual]) => [name, given.get(name) ?? usual]));
  }

  /** Writes after a pause: browsers limit how often a page may do this. */
  write(state) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      const told = Object.entries(state).filter(([name, value]) => String(value) !== DEFAULTS[name]);
      this.last = told.length ? `#${new URLSearchParams(told)}` : "";
      if (this.last !== location.hash) history.replaceState(null, "", this.last || location.pathname + location.search);
    }, PATIENCE);
  }
}
