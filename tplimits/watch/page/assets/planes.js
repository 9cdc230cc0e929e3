// Panels of points: planes, and shares of one.

// nine of ten points of a Gaussian law in the plane lie where the square of their distance, in units of the law, is less
const NINE_OF_TEN = 2 * Math.log(10);

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
    const seeds = ideal ? this.seeds(ideal, limit) : null, [x, y] = [[0, 0], [0, 0]];
    for (const group of [own, ...beside, ...arrows, ...(ideal ? [ideal] : []), ...(seeds ? seeds.groups : [])]) {
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
      if (seeds) this.cloud(pen, frame, seeds, ideal, machine);
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

  // the other networks of this width: each as far from the limit that is shown as it is from the limit of its own seed;
  // with them the covariance of these distances in the limit, found from networks of all widths: those of width n are
  // n^(−1/2) times as far
  seeds(ideal, limit) {
    const own = this.side.machine.run, groups = [], count = ideal.points.count;
    const runs = this.app.data.runs.filter((run) => run.width !== null && Object.keys(run.arrays).length);
    if (own.width === null || runs.filter((run) => run.width === own.width).length < 3 || count * runs.length > 6000) return null;
    const [xx, xy, yy] = [0, 1, 2].map(() => new Float64Array(count));
    let known = 0;
    for (const run of runs) {
      const its = this.app.limitOf(run), from = its === limit ? ideal : its && this.read(this.view.value, its);
      const to = from && this.read(this.view.value, this.app.machine(run).at(this.app.frame, this.app.inputs));
      if (!to) continue;
      known++;
      const x = new Float64Array(count), y = new Float64Array(count);
      for (let p = 0; p < count; p++) {
        const [dx, dy] = [to.x[p] - from.x[p], to.y[p] - from.y[p]];
        [x[p], y[p]] = [ideal.x[p] + dx, ideal.y[p] + dy];
        xx[p] += run.width * dx * dx;
        xy[p] += run.width * dx * dy;
        yy[p] += run.width * dy * dy;
      }
      if (run.width === own.width && run !== own) groups.push({ points: to.points, x, y });
    }
    const covariance = [xx, xy, yy].map((sum) => sum.map((v) => v / (known * own.width)));
    return { groups, covariance, known };
  }

  cloud(pen, frame, { groups, covariance, known }, ideal, machine) {
    for (const group of groups) this.dots(pen, frame, group, 1.5, 0.45, machine, false);
    if (known < 5 || ideal.points.count > 100) return;
    const [xx, xy, yy] = covariance;
    pen.globalAlpha = 0.5;
    for (let p = 0; p < ideal.points.count; p++) {
      const half = (xx[p] - yy[p]) / 2, root = Math.hypot(half, xy[p]), middle = (xx[p] + yy[p]) / 2;
      const axes = [middle + root, middle - root].map((v) => Math.sqrt(NINE_OF_TEN * Math.max(0, v))), turn = Math.atan2(xy[p], half) / 2;
      const around = Array.from({ length: 25 }, (_, k) => [axes[0] * Math.cos((k * Math.PI) / 12), axes[1] * Math.sin((k * Math.PI) / 12)]);
      const colour = this.colour(this.view.colour, ideal.points, p, machine), [c, s] = [Math.cos(turn), Math.sin(turn)];
      line(pen, around.map(([a, b]) => [frame.px(ideal.x[p] + c * a - s * b), frame.py(ideal.y[p] + s * a + c * b)]), colour, 1);
    }
    pen.globalAlpha = 1;
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
    const limit = this.limit(), ideal = limit ? this.read(this.view.value, limit) : null, seeds = ideal && this.seeds(ideal, limit);
    if (seeds) this.cloud(pen, frame, seeds, ideal, machine);
    if (ideal) this.rings(pen, frame, ideal);
    this.dots(pen, frame, own, 3.2, 1, machine, true);
    this.highlight(pen);
  }
}
