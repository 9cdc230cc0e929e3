// Panels of maps of the plane, with their level lines.

// 33 shades from the colour of one class over the ground to that of another
function between(a, b) {
  const side = (t) => (t < 0.5 ? mixed(a, theme.ground, 2 * t) : mixed(theme.ground, b, 2 * t - 1));
  return Array.from({ length: 33 }, (_, k) => mixed(side(k / 32), theme.ground, 0.25));
}

// the map from one value to a later one over the plane of the first
class LevelsPanel extends PlanePanel {
  constructor(view, app, side) {
    const dim = app.data.values[view.start].dims.find((d) => d.kind === "axis");
    super({ beside: [], arrows: [], limit: false, colour: "probe", ...view, value: view.start, axis: dim.axis }, app, side);
    this.outlines = true;
  }

  get title() {
    const { title, start, end, table } = this.view;
    return title || (table ? `${start} ↦ softmax ${table}·${start}` : `${start} ↦ ${end}`);
  }

  paint(pen, frame, w, h) {
    const own = this.read(this.view.value, this.side.machine);
    if (!own) return this.nothing(pen, w, h, "not recorded for this run");
    const range = (of) => snapped(of.reduce((m, v) => Math.min(m, v), Infinity), of.reduce((m, v) => Math.max(m, v), -Infinity));
    frame.square(range(own.x), range(own.y));
    const cells = Math.max(...this.side.machine.width) > 300 ? 14 : 24, map = this.map(frame, cells);
    if (map) this.coloured(pen, frame, map, cells);
    frame.axes();
    frame.clipped(() => this.dots(pen, frame, own, 3.2, 1, this.side.machine, true));
    this.highlight(pen);
  }

  // the map at the centres of cells: (cells × cells, classes)
  map(frame, cells) {
    const count = cells * cells, grid = new Float64Array(2 * count);
    for (let i = 0; i < count; i++) {
      grid[i] = frame.x[0] + ((frame.x[1] - frame.x[0]) * ((i % cells) + 0.5)) / cells;
      grid[count + i] = frame.y[1] - ((frame.y[1] - frame.y[0]) * (Math.floor(i / cells) + 0.5)) / cells;
    }
    return this.view.table ? this.softmax(grid, count) : this.later(grid, count);
  }

  // the softmax of a table times x
  softmax(grid, count) {
    const table = this.side.machine.get(this.meta(this.view.table).id);
    if (!table) return null;
    const classes = table.length / 2, value = new Float64Array(count * classes);
    for (let i = 0; i < count; i++) {
      const logits = Array.from({ length: classes }, (_, k) => table[2 * k] * grid[i] + table[2 * k + 1] * grid[count + i]);
      const most = Math.max(...logits), total = logits.reduce((s, l) => s + Math.exp(l - most), 0);
      logits.forEach((l, k) => (value[i * classes + k] = Math.exp(l - most) / total));
    }
    return { value, points: { base: Int32Array.from({ length: count }, (_, i) => i * classes), stride: 1, size: classes } };
  }

  // a later value of the network, with these numbers in place of those of the probes
  later(grid, count) {
    const { machine } = this.side, end = this.meta(this.view.end);
    if (machine.run.recordedOnly) return null;
    const other = this.other && this.other.run === machine.run ? this.other : (this.other = new Machine(machine.run, this.app.data));
    other.keep = machine.keep;
    other.at(machine.frame, this.app.inputs.copies(this.app.picked.probe || 0, count)).forget();
    other.set.clear();
    other.set.set(this.meta().id, grid);
    const value = other.get(end.id), axis = end.dims.find((d) => d.kind === "axis");
    return value && { value, points: this.layout(this.view.end, axis ? axis.axis : "", other) };
  }

  coloured(pen, frame, { value, points }, cells) {
    const w = (frame.right - frame.left) / cells, h = (frame.bottom - frame.top) / cells, many = points.size;
    const ground = rgb(theme.ground), pale = between(HUES[0], HUES[1]);
    const at = (i, k) => value[points.base[i] + k * points.stride], share = new Float64Array(cells * cells);
    for (let i = 0; i < cells * cells; i++) {
      if (many <= 2) {
        share[i] = at(i, many - 1);
        pen.fillStyle = pale[Math.round(32 * Math.max(0, Math.min(1, share[i])))];
      } else {
        const total = [0, 0, 0];
        for (let k = 0; k < many; k++) rgb(HUES[k % 10]).forEach((c, j) => (total[j] += c * Math.max(0, at(i, k))));
        pen.fillStyle = `rgb(${total.map((c, j) => Math.min(255, Math.round(0.75 * c + 0.25 * ground[j]))).join(",")})`;
      }
      pen.fillRect(frame.left + (i % cells) * w, frame.top + Math.floor(i / cells) * h, w + 0.5, h + 0.5);
    }
    if (many <= 2) for (const level of [0.25, 0.5, 0.75]) this.contour(pen, frame, share, cells, level, w, h);
  }

  // where a map crosses a level, cell by cell
  contour(pen, frame, map, cells, level, w, h) {
    pen.strokeStyle = theme.ink;
    pen.lineWidth = level === 0.5 ? 1.5 : 0.6;
    pen.beginPath();
    for (let r = 0; r < cells - 1; r++) {
      for (let c = 0; c < cells - 1; c++) {
        const ends = [], corners = [[0, 0], [0, 1], [1, 1], [1, 0]];
        for (let k = 0; k < 4; k++) {
          const [a, b] = [corners[k], corners[(k + 1) % 4]];
          const [u, v] = [a, b].map(([dr, dc]) => map[(r + dr) * cells + c + dc] - level);
          if (u > 0 === v > 0) continue;
          const t = u / (u - v);
          ends.push([frame.left + (c + 0.5 + a[1] + t * (b[1] - a[1])) * w, frame.top + (r + 0.5 + a[0] + t * (b[0] - a[0])) * h]);
        }
        for (let k = 0; k + 1 < ends.length; k += 2) {
          pen.moveTo(...ends[k]);
          pen.lineTo(...ends[k + 1]);
        }
      }
    }
    pen.stroke();
  }
}
