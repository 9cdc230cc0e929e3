// Panels of what has an entry for every neuron.

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
