// Panels of values over two axes.

class MatrixPanel extends Panel {
  paint(pen, frame, w, h) {
    const view = this.view, machine = this.side.machine, meta = this.meta(), value = machine.get(meta.id);
    if (!value) return this.nothing(pen, w, h, "not recorded for this run");
    const points = this.layout(view.value, "", machine), key = (axis) => (meta.dims.find((d) => d.axis === axis) || { key: "" }).key;
    const [rows, columns] = [key(view.rows), key(view.columns)];
    const fixed = Object.keys(points.keys).filter((k) => k !== rows && k !== columns);
    const chosen = where(points, fixed.map((k) => [k, this.app.picked[k] || 0])).filter((p) => this.wanted(points, p));
    const shown = rows ? [...new Set(chosen.map((p) => points.keys[rows][p]))] : [0], place = new Map(shown.map((r, i) => [r, i]));
    const count = 1 + chosen.reduce((m, p) => Math.max(m, points.keys[columns][p]), 0);
    let [low, high] = view.range || [Infinity, -Infinity];
    if (!view.range) for (const p of chosen) (low = Math.min(low, value[points.base[p]])), (high = Math.max(high, value[points.base[p]]));
    if (!view.range && low < 0 && high > 0) [low, high] = [-Math.max(-low, high), Math.max(-low, high)];
    const cw = (frame.right - frame.left) / count, ch = (frame.bottom - frame.top) / Math.max(1, shown.length);
    const hits = { x: [], y: [], points, order: [] };
    for (const p of chosen) {
      const r = rows ? place.get(points.keys[rows][p]) : 0, c = points.keys[columns][p], t = (value[points.base[p]] - low) / (high - low || 1);
      pen.fillStyle = low < 0 && !view.range ? diverging(t) : shade(t);
      const [x, y] = [frame.left + c * cw, frame.top + r * ch];
      pen.fillRect(x, y, cw + 0.5, ch + 0.5);
      hits.x.push(x + cw / 2);
      hits.y.push(y + ch / 2);
      hits.order.push(p);
    }
    this.cell = [cw, ch];
    this.hits.push(hits);
    this.labels(pen, frame, { rows, columns, shown, count, cw, ch, range: [low, high] }, w);
    if (view.line) line(pen, [[frame.left + view.line * cw, frame.top], [frame.left + view.line * cw, frame.bottom]], theme.accent, 2);
    this.outlined(pen, hits);
  }

  get choices() {
    return this.meta().dims.filter((d) => d.kind === "axis" && d.axis !== this.view.rows && d.axis !== this.view.columns);
  }

  wanted(points, p) {
    const { classes } = this.app.data.probes, probe = points.keys.probe ? points.keys.probe[p] : 0;
    return this.view.label === null || !points.keys.probe || !classes || probe >= classes.length || classes[probe] === this.view.label;
  }

  labels(pen, frame, { rows, columns, shown, count, cw, ch, range }, w) {
    pen.fillStyle = theme.faint;
    pen.font = "9px system-ui, sans-serif";
    pen.textAlign = "right";
    pen.fillText(`${short(range[0])} … ${short(range[1])}`, w - 6, 14);
    pen.textAlign = "center";
    for (let c = 0; c < count; c += Math.ceil(14 / cw)) pen.fillText(String(c), frame.left + (c + 0.5) * cw, frame.bottom + 10);
    pen.textAlign = "right";
    for (let r = 0; r < shown.length; r += Math.max(1, Math.ceil(10 / ch))) pen.fillText(String(shown[r]), frame.left - 3, frame.top + (r + 0.5) * ch + 3);
  }

  hit(x, y) {
    const [group] = this.hits;
    if (!group) return null;
    const i = group.x.findIndex((cx, k) => Math.abs(cx - x) <= this.cell[0] / 2 && Math.abs(group.y[k] - y) <= this.cell[1] / 2);
    if (i < 0) return null;
    const keys = Object.create(null);
    for (const key in group.points.keys) keys[key] = group.points.keys[key][group.order[i]];
    return keys;
  }

  outlined(pen, { x, y, points, order }) {
    const over = this.app.over, shared = over ? Object.keys(over).filter((key) => points.keys[key]) : [];
    if (!shared.length) return;
    pen.strokeStyle = theme.accent;
    pen.lineWidth = 1.5;
    for (let i = 0; i < x.length; i++) {
      if (shared.every((key) => points.keys[key][order[i]] === over[key])) {
        pen.strokeRect(x[i] - this.cell[0] / 2, y[i] - this.cell[1] / 2, this.cell[0], this.cell[1]);
      }
    }
  }
}

const diverging = (t) => (t < 0.5 ? mixed("#b2182b", theme.ground, 2 * t) : mixed(theme.ground, "#2166ac", Math.min(1, 2 * t - 1)));
