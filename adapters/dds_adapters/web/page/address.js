// What is looked at, kept in the fragment of the page's address, so that a colleague who is sent it sees the same.

const DEFAULTS = { tab: "waits", sort: "waited", group: "node", q: "", sel: "", at: "", from: "", to: "", gaps: "", only: "", facts: "" };
const PATIENCE = 250;

class Address {
  constructor(changed) {
    this.last = location.hash;
    window.addEventListener("hashchange", () => {
      if (location.hash !== this.last) this.last = location.hash, changed(this.read());
    });
  }

  /** What the fragment says, and the defaults for the rest. */
  read() {
    const given = new URLSearchParams(location.hash.slice(1));
    return Object.fromEntries(Object.entries(DEFAULTS).map(([name, usual]) => [name, given.get(name) ?? usual]));
  }

  /** Written a moment later: browsers refuse what is written too often. */
  write(state) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      const told = Object.entries(state).filter(([name, value]) => String(value) !== DEFAULTS[name]);
      this.last = told.length ? `#${new URLSearchParams(told)}` : "";
      if (this.last !== location.hash) history.replaceState(null, "", this.last || location.pathname + location.search);
    }, PATIENCE);
  }
}
