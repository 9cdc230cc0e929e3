// What all panels share: a panel draws one view of one side, and knows what lies where.

// where the entries of a value lie: `base` of every point, the index of every point along each axis, the coordinates
function layout(meta, axis, machine) {
  const sizes = meta.dims.map((d) => (d.kind === "probe" ? machine.samples : d.kind === "neuron" ? machine.width[d.width] : d.size));
  const strides = sizes.map((_, i) => sizes.slice(i + 1).reduce((a, b) => a * b, 1));
  const own = meta.dims.findIndex((d) => d.axis === axis), others = meta.dims.map((_, i) => i).filter((i) => i !== own);
  const count = others.reduce((n, i) => n * sizes[i], 1), base = new Int32Array(count), keys = Object.create(null);  // any name is a key
  for (const i of others) keys[meta.dims[i].key] = new Int32Array(count);
  for (let p = 0; p < count; p++) {
    let rest = p;
    for (let o = others.length - 1; o >= 0; o--) {
      const i = others[o], at = rest % sizes[i];
      rest = (rest - at) / sizes[i];
      base[p] += at * strides[i];
      keys[meta.dims[i].key][p] = at;
    }
  }
  return { count, base, keys, stride: own < 0 ? 0 : strides[own], size: own < 0 ? 1 : sizes[own] };
}

// the points of a layout whose index along some axes is the one that is picked
function where(points, fixed) {
  const found = [];
  for (let p = 0; p < points.count; p++) if (fixed.every(([key, at]) => points.keys[key][p] === at)) found.push(p);
  return found;
}

class Panel {
  constructor(view, app, side) {
    this.view = view;
    this.app = app;
    this.side = side;
    this.layouts = new Map();
    this.hits = [];
    this.margin = { left: 34, right: 8, top: 22, bottom: 16 };
  }

  get title() {
    return this.view.title || this.view.value || this.view.kind;
  }

  meta(name = this.view.value) {
    return this.app.data.values[name];
  }

  layout(name, axis, machine) {
    const key = [name, axis, machine.samples, machine.width].join("|");
    if (!this.layouts.has(key)) this.layouts.set(key, layout(this.meta(name), axis, machine));
    return this.layouts.get(key);
  }

  // the limit beside a finite network, where it is wanted and there is one
  limit() {
    const limit = this.app.limitOf(this.side.machine.run);
    return this.view.limit !== false && limit && limit !== this.side.machine ? limit : null;
  }

  colour(key, points, p, machine) {
    if (key === "probe") return this.app.probeColour(points.keys.probe ? points.keys.probe[p] : 0);
    if (!key || !points.keys[key]) return theme.ink;
    if (key === "neuron") return hue(points.keys.neuron[p], Math.max(11, machine.width[0]));
    const dim = this.meta().dims.find((d) => d.key === key);
    return hue(points.keys[key][p], dim && dim.size ? dim.size : 10);
  }

  frame(pen, w, h) {
    pen.fillStyle = theme.ink;
    pen.font = "bold " + theme.font;
    pen.textAlign = "left";
    pen.fillText(this.title, 6, 14);
    return new Frame(pen, w, h, this.margin);
  }

  // axes of which one index is shown, the one that a reader picks
  get choices() {
    return [];
  }

  nothing(pen, w, h, text) {
    pen.fillStyle = theme.faint;
    pen.font = theme.font;
    pen.textAlign = "center";
    pen.fillText(text, w / 2, h / 2);
  }

  draw(pen, w, h) {
    this.hits = [];
    this.paint(pen, this.frame(pen, w, h), w, h);
  }

  hit(x, y) {
    let best = null, nearest = 14 * 14;
    for (const group of this.hits) {
      for (let i = 0; i < group.x.length; i++) {
        const d = (group.x[i] - x) ** 2 + (group.y[i] - y) ** 2;
        if (d < nearest) {
          nearest = d;
          best = [group, i];
        }
      }
    }
    if (!best) return null;
    const [group, i] = best, keys = Object.create(null);
    for (const key in group.points.keys) keys[key] = group.points.keys[key][group.order[i]];
    return keys;
  }

  // rings around what the pointer is on in any panel, and its name
  highlight(pen) {
    const over = this.app.over;
    if (!over) return;
    pen.fillStyle = theme.ink;
    pen.font = theme.font;
    pen.textAlign = "left";
    for (const { x, y, points, order } of this.hits) {
      const shared = Object.keys(over).filter((key) => points.keys[key]);
      if (!shared.length) continue;
      pen.beginPath();
      let last = -1, many = 0;
      for (let i = 0; i < x.length; i++) {
        if (shared.every((key) => points.keys[key][order[i]] === over[key])) {
          mark(pen, x[i], y[i], 6, 0);
          last = i;
          many++;
        }
      }
      [pen.strokeStyle, pen.lineWidth] = [theme.ground, 5];
      pen.stroke();
      [pen.strokeStyle, pen.lineWidth] = [theme.accent, 2];
      pen.stroke();
      if (many === 1) pen.fillText(this.app.nameOf(over, shared), x[last] + 8, y[last] - 5);
    }
  }
}
