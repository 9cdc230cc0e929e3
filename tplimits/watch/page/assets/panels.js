// Panels of points: planes, triangles, densities.  A panel draws one view of one side, and knows what lies where.

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

class PlanePanel extends Panel {
  constructor(view, app, side) {
    super(view, app, side);
    const dim = this.meta().dims.find((d) => d.axis === view.axis);
    this.size = dim.size;
    this.pair = view.entries || (this.size === 2 ? [0, 1] : null);
  }

  // the two coordinates of the points of a value: entries, or principal components at the end of training
  coordinates(value, points) {
    const { base, stride, count } = points, x = new Float64Array(count), y = new Float64Array(count);
    if (this.pair) {
      const [a, b] = this.pair;
      for (let p = 0; p < count; p++) {
        x[p] = value[base[p] + a * stride];
        y[p] = value[base[p] + b * stride];
      }
      return [x, y];
    }
    const { mean, axes } = this.components();
    for (let p = 0; p < count; p++) {
      for (let a = 0; a < this.size; a++) {
        const v = value[base[p] + a * stride] - mean[a];
        x[p] += axes[0][a] * v;
        y[p] += axes[1][a] * v;
      }
    }
    return [x, y];
  }

  components() {
    const run = this.side.machine.run;
    if (this.fitted === run) return this.basis;
    const machine = this.app.atEnd(run), value = machine.get(this.meta().id);
    const points = layout(this.meta(), this.view.axis, machine), flat = new Float64Array(points.count * this.size);
    for (let p = 0; p < points.count; p++) {
      for (let a = 0; a < this.size; a++) flat[p * this.size + a] = value ? value[points.base[p] + a * points.stride] : 0;
    }
    this.fitted = run;
    return (this.basis = principal(flat, points.count, this.size));
  }

  read(name, machine) {
    const value = machine.get(this.meta(name).id);
    if (!value) return null;
    const points = this.layout(name, this.view.axis, machine), [x, y] = this.coordinates(value, points);
    return { points, x, y };
  }

  paint(pen, frame, w, h) {
    const view = this.view, machine = this.side.machine, own = this.read(view.value, machine);
    if (!own) return this.nothing(pen, w, h, "not recorded for this run");
    const beside = view.beside.map((name) => this.read(name, machine)).filter(Boolean);
    const arrows = view.arrows.map((name) => this.read(name, machine)).filter(Boolean);
    const limit = this.limit(), ideal = limit && !own.points.keys.neuron ? this.read(view.value, limit) : null;
    const [x, y] = [[0, 0], [0, 0]];
    for (const group of [own, ...beside, ...arrows, ...(ideal ? [ideal] : [])]) {
      for (let p = 0; p < group.points.count; p++) {
        if (!(Math.abs(group.x[p]) < 1e150 && Math.abs(group.y[p]) < 1e150)) continue;
        if (group.x[p] < x[0]) x[0] = group.x[p];
        if (group.x[p] > x[1]) x[1] = group.x[p];
        if (group.y[p] < y[0]) y[0] = group.y[p];
        if (group.y[p] > y[1]) y[1] = group.y[p];
      }
    }
    frame.square(snapped(...x), snapped(...y)).axes();
    frame.clipped(() => {
      const [ox, oy] = [frame.px(0), frame.py(0)];
      line(pen, [[ox - 5, oy], [ox + 5, oy]], theme.faint);
      line(pen, [[ox, oy - 5], [ox, oy + 5]], theme.faint);
      for (const group of beside) this.dots(pen, frame, group, 2, 0.3, machine, false);
      if (view.rays) this.rays(pen, frame, own, machine, ox, oy);
      if (ideal) this.rings(pen, frame, ideal, limit);
      this.dots(pen, frame, own, own.points.count > 200 ? 2 : 3.2, 1, machine, true);
      for (const group of arrows) this.arrow(pen, frame, group, ox, oy);
      if (view.texts) this.texts(pen, own);
    });
    this.highlight(pen);
  }

  shapeOf(points, p) {
    for (const key in this.view.squares || {}) if (points.keys[key]) return points.keys[key][p] >= this.view.squares[key] ? 1 : 0;
    return points.keys.probe && this.view.colour === "probe" ? this.app.probeMark(points.keys.probe[p]) : 0;
  }

  // dots of one colour together: a canvas is slow at changing colours
  dots(pen, frame, group, size, alpha, machine, touchable) {
    const { points, x, y } = group, hits = { x: [], y: [], points, order: [] }, byColour = new Map();
    const step = Math.max(1, Math.ceil(points.count / 4000));
    for (let p = 0; p < points.count; p += step) {
      const colour = this.colour(this.view.colour, points, p, machine);
      if (!byColour.has(colour)) byColour.set(colour, []);
      byColour.get(colour).push(p);
      hits.x.push(frame.px(x[p]));
      hits.y.push(frame.py(y[p]));
      hits.order.push(p);
    }
    pen.globalAlpha = alpha;
    for (const [colour, some] of byColour) {
      pen.fillStyle = colour;
      pen.beginPath();
      for (const p of some) mark(pen, frame.px(x[p]), frame.py(y[p]), size, this.shapeOf(points, p));
      pen.fill();
      if (this.outlines) {
        [pen.strokeStyle, pen.lineWidth] = [theme.ink, 0.8];
        pen.stroke();
      }
    }
    pen.globalAlpha = 1;
    if (touchable) this.hits.push(hits);
  }

  rings(pen, frame, { points, x, y }) {
    pen.strokeStyle = theme.ink;
    pen.lineWidth = 1;
    pen.globalAlpha = 0.6;
    pen.beginPath();
    const step = Math.max(1, Math.ceil(points.count / 1000));
    for (let p = 0; p < points.count; p += step) mark(pen, frame.px(x[p]), frame.py(y[p]), 4.5, 0);
    pen.stroke();
    pen.globalAlpha = 1;
  }

  rays(pen, frame, { points, x, y }, machine, ox, oy) {
    pen.globalAlpha = 0.35;
    for (let p = 0; p < Math.min(points.count, 256); p++) {
      line(pen, [[ox, oy], [frame.px(x[p]), frame.py(y[p])]], this.colour(this.view.colour, points, p, machine));
    }
    pen.globalAlpha = 1;
  }

  arrow(pen, frame, { points, x, y }, ox, oy) {
    for (let p = 0; p < points.count; p++) {
      const [px, py] = [frame.px(x[p]), frame.py(y[p])], angle = Math.atan2(py - oy, px - ox);
      line(pen, [[ox, oy], [px, py]], theme.accent, 2);
      const head = [-2.7, 2.7].map((turn) => [px + 8 * Math.cos(angle + turn), py + 8 * Math.sin(angle + turn)]);
      line(pen, [head[0], [px, py], head[1]], theme.accent, 2);
    }
  }

  texts(pen) {
    const { x, y, points, order } = this.hits[this.hits.length - 1];
    pen.fillStyle = theme.ink;
    pen.font = "9px system-ui, sans-serif";
    pen.textAlign = "left";
    pen.globalAlpha = points.count > 40 ? 0.3 : 0.7;
    for (let i = 0; i < Math.min(x.length, 120); i++) {
      const keys = Object.create(null);
      for (const key in points.keys) keys[key] = points.keys[key][order[i]];
      pen.fillText(this.app.nameOf(keys, Object.keys(keys), true), x[i] + 4, y[i] - 4);
    }
    pen.globalAlpha = 1;
  }
}

class TrianglePanel extends PlanePanel {
  constructor(view, app, side) {
    super({ beside: [], arrows: [], colour: "probe", ...view, colour: view.colour || "probe" }, app, side);
    this.pair = null;
  }

  // the corners are the first three classes; of two, the second one's share, and probes below one another
  coordinates(value, { base, stride, count }) {
    const x = new Float64Array(count), y = new Float64Array(count);
    for (let p = 0; p < count; p++) {
      const at = (k) => (k < this.size ? value[base[p] + k * stride] : 0);
      x[p] = at(1) + at(2) / 2;
      y[p] = this.size > 2 ? at(2) * Math.sqrt(0.75) : 0.85 * (1 - (p + 0.5) / count);
    }
    return [x, y];
  }

  paint(pen, frame, w, h) {
    const machine = this.side.machine, own = this.read(this.view.value, machine);
    if (!own) return this.nothing(pen, w, h, "not recorded for this run");
    frame.square([-0.05, 1.05], [-0.08, 0.93]);
    const corners = [[0, 0], [1, 0], ...(this.size > 2 ? [[0.5, Math.sqrt(0.75)]] : [])].map(([x, y]) => [frame.px(x), frame.py(y)]);
    line(pen, [...corners, corners[0]], theme.grid);
    pen.fillStyle = theme.faint;
    pen.font = theme.font;
    pen.textAlign = "center";
    corners.forEach(([x, y], k) => pen.fillText(String(k), x, k === 2 ? y - 5 : y + 13));
    const limit = this.limit(), ideal = limit ? this.read(this.view.value, limit) : null;
    if (ideal) this.rings(pen, frame, ideal);
    this.dots(pen, frame, own, 3.2, 1, machine, true);
    this.highlight(pen);
  }
}

class DensityPanel extends PlanePanel {
  constructor(view, app, side) {
    const axis = view.axis || null;
    super({ arrows: [], limit: true, ...view, axis: axis || app.data.values[view.value].dims[0].axis }, app, side);
    this.planar = axis !== null;
    this.margin = { ...this.margin, left: this.planar ? 34 : 12 };
  }

  get title() {
    const fixed = this.fixed(this.meta()).map(([key, at]) => this.app.nameOf({ [key]: at }, [key]));
    return (this.view.title || this.view.value) + (fixed.length ? " · " + fixed.join(", ") : "");
  }

  // axes that are neither neurons nor coordinates: the index that the reader picked last
  fixed(meta) {
    const rest = meta.dims.filter((d) => d.kind !== "neuron" && !(this.planar && d.axis === this.view.axis));
    return rest.map((d) => [d.key, Math.min(this.app.picked[d.key] || 0, (d.size || this.side.machine.samples) - 1)]);
  }

  get choices() {
    return this.meta().dims.filter((d) => d.kind === "axis" && !(this.planar && d.axis === this.view.axis));
  }

  samples(name, machine) {
    const meta = this.meta(name), value = machine.get(meta.id);
    if (!value) return null;
    const all = this.layout(name, this.planar ? this.view.axis : "", machine), chosen = where(all, this.fixed(meta));
    const keys = { neuron: Int32Array.from(chosen, (p) => all.keys.neuron[p]) };
    const points = { ...all, count: chosen.length, base: Int32Array.from(chosen, (p) => all.base[p]), keys };
    if (this.planar) {
      const [x, y] = this.coordinates(value, points);
      return { points, x, y };
    }
    return { points, x: Float64Array.from(points.base, (b) => value[b]) };
  }

  paint(pen, frame, w, h) {
    const machine = this.side.machine, limit = this.app.limitOf(machine.run), own = this.samples(this.view.value, machine);
    if (!own) return this.nothing(pen, w, h, "not recorded for this run");
    const law = limit ? (limit === machine ? own : this.samples(this.view.value, limit)) : null;
    (this.planar ? this.plane : this.curve).call(this, pen, frame, own, law, machine);
    this.highlight(pen);
  }

  plane(pen, frame, own, law, machine) {
    const x = [0, 0], y = [0, 0], beside = this.view.beside.map((name) => this.samples(name, machine)).filter(Boolean);
    for (const group of [own, ...(law ? [law] : []), ...beside]) {
      for (const v of group.x) (x[0] = Math.min(x[0], v)), (x[1] = Math.max(x[1], v));
      for (const v of group.y) (y[0] = Math.min(y[0], v)), (y[1] = Math.max(y[1], v));
    }
    frame.square(snapped(...x), snapped(...y));
    if (law) this.cloud(pen, frame, law);
    frame.axes();
    frame.clipped(() => {
      const [ox, oy] = [frame.px(0), frame.py(0)];
      for (const group of beside) this.dots(pen, frame, group, 2, 0.3, machine, false);
      if (this.view.rays && own !== law) this.rays(pen, frame, own, machine, ox, oy);
      this.dots(pen, frame, own, own === law ? 1 : own.points.count > 200 ? 1.6 : 3, own === law ? 0.5 : 1, machine, true);
      this.crosses(pen, frame, own, machine);
    });
  }

  // the density of samples in the plane, on cells of the panel
  cloud(pen, frame, { x, y }) {
    const cells = 36, w = (frame.right - frame.left) / cells, h = (frame.bottom - frame.top) / cells;
    const grid = new Float64Array(cells * cells), wide = Math.max(1.1, 3.2 * (256 / x.length) ** (1 / 6)), reach = Math.ceil(2.5 * wide);
    const across = new Float64Array(2 * reach + 2);
    for (let i = 0; i < x.length; i++) {
      const u = (frame.px(x[i]) - frame.left) / w - 0.5, v = (frame.py(y[i]) - frame.top) / h - 0.5;
      const left = Math.max(0, Math.round(u) - reach), right = Math.min(cells - 1, Math.round(u) + reach);
      for (let c = left; c <= right; c++) across[c - left] = Math.exp(-((c - u) ** 2) / (2 * wide * wide));
      for (let r = Math.max(0, Math.round(v) - reach); r <= Math.min(cells - 1, Math.round(v) + reach); r++) {
        const down = Math.exp(-((r - v) ** 2) / (2 * wide * wide));
        for (let c = left; c <= right; c++) grid[r * cells + c] += down * across[c - left];
      }
    }
    const most = grid.reduce((m, v) => Math.max(m, v), 1e-300);
    for (let r = 0; r < cells; r++) {
      for (let c = 0; c < cells; c++) {
        const t = grid[r * cells + c] / most;
        if (t < 0.02) continue;
        pen.fillStyle = shade(0.75 * t);
        pen.fillRect(frame.left + c * w, frame.top + r * h, w + 0.6, h + 0.6);
      }
    }
  }

  // neurons that a reader has removed
  crosses(pen, frame, { points, x, y }, machine) {
    const width = this.meta().dims.find((d) => d.kind === "neuron").width;
    for (let i = 0; i < points.count; i++) {
      if (machine.keep[width][points.keys.neuron[i]]) continue;
      const [px, py] = [frame.px(x[i]), frame.py(y ? y[i] : 0)];
      line(pen, [[px - 5, py - 5], [px + 5, py + 5]], theme.accent, 2);
      line(pen, [[px - 5, py + 5], [px + 5, py - 5]], theme.accent, 2);
    }
  }

  curve(pen, frame, own, law, machine) {
    let [low, high] = [Infinity, -Infinity];
    for (const group of [own, ...(law ? [law] : [])]) for (const v of group.x) (low = Math.min(low, v)), (high = Math.max(high, v));
    const [a, b] = snapped(low, high), curves = [law, own].map((group) => group && smoothed(group.x, a, b));
    const most = Math.max(1e-300, ...curves.filter(Boolean).map((c) => Math.max(...c)));
    frame.scales([a, b], [-0.15 * most, 1.08 * most]).axes(true, false);
    const path = (c) => Array.from(c, (v, i) => [frame.px(a + ((b - a) * (i + 0.5)) / c.length), frame.py(v)]);
    if (law) {
      pen.fillStyle = shade(0.3);
      pen.beginPath();
      pen.moveTo(frame.px(a), frame.py(0));
      for (const [x, y] of path(curves[0])) pen.lineTo(x, y);
      pen.lineTo(frame.px(b), frame.py(0));
      pen.fill();
    }
    if (own !== law) line(pen, path(curves[1]), theme.ink, 1.2);
    const y = Float64Array.from(own.x, (_, i) => -most * (0.03 + 0.09 * ((i * 0.618) % 1)));
    this.dots(pen, frame, { ...own, y }, own.points.count > 200 ? 1.2 : 2.2, 0.8, machine, true);
    this.crosses(pen, frame, { ...own, y }, machine);
  }
}

// a smoothed histogram of numbers on 64 cells
function smoothed(x, low, high) {
  const cells = 64, counts = new Float64Array(cells), found = new Float64Array(cells);
  let mean = 0, square = 0;
  for (const v of x) {
    const c = Math.floor(((v - low) / (high - low)) * cells);
    if (c >= 0 && c < cells) counts[c]++;
    mean += v / x.length;
    square += (v * v) / x.length;
  }
  const spread = Math.sqrt(Math.max(0, square - mean * mean)) || (high - low) / 20;
  const wide = Math.max(0.8, (0.9 * spread * x.length ** -0.2 * cells) / (high - low)), reach = Math.min(cells, Math.ceil(3 * wide));
  for (let c = 0; c < cells; c++) {
    if (!counts[c]) continue;
    let total = 0;
    for (let k = -reach; k <= reach; k++) total += Math.exp((-k * k) / (2 * wide * wide));
    for (let k = Math.max(0, c - reach); k <= Math.min(cells - 1, c + reach); k++) {
      found[k] += ((counts[c] / x.length) * Math.exp((-(k - c) * (k - c)) / (2 * wide * wide))) / total;
    }
  }
  return found;
}
