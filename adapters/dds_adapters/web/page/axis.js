// Converts instants to places on the time axis and back. Places are like instants, but long gaps without changes may be cut out.

const GAP_SHARE = 20, GAP_LEAST = 10000, CUT_SHARE = 300, CLOSEST = 20;

class Axis {
  /** @param {Float64Array} instants  of all changes, in order; `cut`: cut long gaps out */
  constructor(instants, cut) {
    const first = instants[0] ?? 0, last = Math.max(instants[instants.length - 1] ?? 0, first + CLOSEST);
    this.first = first;
    this.pieces = [];
    const gap = Math.max((last - first) / GAP_SHARE, GAP_LEAST), width = (last - first) / CUT_SHARE;
    let begun = first, place = 0;
    const add = (since, until, long, isCut) => {
      this.pieces.push({ since, until, place, length: long, cut: isCut });
      place += long;
    };
    for (let n = 1; cut && n < instants.length; n += 1) {
      if (instants[n] - instants[n - 1] <= gap) continue;
      const edge = gap / 20;
      add(begun, instants[n - 1] + edge, instants[n - 1] + edge - begun, false);
      add(instants[n - 1] + edge, instants[n] - edge, width, true);
      begun = instants[n] - edge;
    }
    add(begun, last, last - begun, false);
    this.length = place;
  }

  get cuts() { return this.pieces.filter((piece) => piece.cut); }

  place(at) {
    const piece = this.pieceWhere((one) => one.until >= at);
    return piece.place + ((at - piece.since) / (piece.until - piece.since || 1)) * piece.length;
  }

  instant(place) {
    const piece = this.pieceWhere((one) => one.place + one.length >= place);
    return piece.since + ((place - piece.place) / (piece.length || 1)) * (piece.until - piece.since);
  }

  /** The first piece for which `holds` is true (it is then true for all later ones). */
  pieceWhere(holds) {
    let low = 0, high = this.pieces.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (holds(this.pieces[middle])) high = middle; else low = middle + 1;
    }
    return this.pieces[low];
  }

  /** Round instants between two places, at least `least` apart, none in a cut gap. */
  ticks(from, to, least, start) {
    const step = stepOf(least), found = [];
    for (const piece of this.pieces) {
      if (piece.cut || piece.place > to || piece.place + piece.length < from) continue;
      const since = Math.max(piece.since, this.instant(Math.max(from, piece.place)));
      const until = Math.min(piece.until, this.instant(Math.min(to, piece.place + piece.length)));
      for (let at = Math.ceil((since + start) / step) * step - start; at <= until; at += step) found.push(at);
    }
    return { step, found };
  }
}

/** The visible part of the axis; null is all of it, also when it grows. */
class View {
  constructor() {
    this.range = null;
  }

  from() { return this.range ? this.range[0] : 0; }

  to(axis) { return this.range ? this.range[1] : axis.length; }

  set(axis, from, to) {
    const long = Math.min(Math.max(to - from, CLOSEST), axis.length);
    const begin = Math.min(Math.max(0, from), axis.length - long);
    this.range = long >= axis.length ? null : [begin, begin + long];
  }

  /** Make it `factor` times as long, with `place` at the same pixel. */
  zoom(axis, factor, place = (this.from() + this.to(axis)) / 2) {
    const from = this.from(), to = this.to(axis);
    this.set(axis, place - (place - from) * factor, place + (to - place) * factor);
  }

  move(axis, by) { if (this.range) this.set(axis, this.range[0] + by, this.range[1] + by); }
}
