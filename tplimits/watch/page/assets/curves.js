// Panels over training, and over the width.

// what is drawn over training: the lines once, on a layer of their own, and the frame in front of them
class TimePanel extends Panel {
  constructor(view, app, side) {
    super(view, app, side);
    this.margin = { ...this.margin, right: 16 };
  }

  draw(pen, w, h) {
    if (!(pen instanceof SvgPen)) {
      const key = [w, h, theme.dark, this.side.machine.run.title, this.fresh()].join("|"), ratio = devicePixelRatio || 1;
      if (this.layerKey !== key) {
        this.layerKey = key;
        this.layer = document.createElement("canvas");
        [this.layer.width, this.layer.height] = [Math.max(1, w * ratio), Math.max(1, h * ratio)];
        const own = this.layer.getContext("2d");
        own.scale(ratio, ratio);
        this.box = this.frame(own, w, h);
        this.lines(own, this.box, w, h);
      }
      pen.drawImage(this.layer, 0, 0, w, h);
    } else {
      this.box = this.frame(pen, w, h);
      this.lines(pen, this.box, w, h);
    }
    const box = this.box, steps = this.app.data.steps;
    if (!box.x) return;
    const at = box.px(steps[this.app.frame]);
    line(pen, [[at, box.top], [at, box.bottom]], theme.accent, 1);
  }

  hit() {
    return null;
  }

  // the frame at a place, for a click
  frameAt(x) {
    const box = this.box, steps = this.app.data.steps;
    if (!box || !box.x || x < box.left - 4 || x > box.right + 4) return null;
    const step = box.x[0] + ((x - box.left) / (box.right - box.left)) * (box.x[1] - box.x[0]);
    let best = 0;
    for (let f = 0; f < steps.length; f++) if (Math.abs(steps[f] - step) < Math.abs(steps[best] - step)) best = f;
    return best;
  }

  fresh() {
    return 0;
  }

  // scales for curves, each an array over the first frames of the recording
  scaled(box, curves, logarithmic) {
    const steps = this.app.data.steps;
    let [low, high] = [Infinity, -Infinity];
    for (const curve of curves) {
      for (const v of curve) {
        if (!Number.isFinite(v) || (logarithmic && v <= 0)) continue;
        low = Math.min(low, v);
        high = Math.max(high, v);
      }
    }
    if (!(low <= high)) return false;
    const [a, b] = [low, high].map((v) => Math.log10(Math.max(v, high * 1e-12))), margin = 0.04 * Math.max(0.2, b - a);
    const y = logarithmic ? [a - margin, b + margin] : snapped(low, high);
    box.scales([steps[0], steps[steps.length - 1] > steps[0] ? steps[steps.length - 1] : steps[0] + 1], y, logarithmic).axes();
    return true;
  }

  // at most two points for every pixel: the smallest and the largest of what falls into it
  path(box, curve, frames) {
    const steps = this.app.data.steps, per = Math.max(1, Math.floor(curve.length / (2 * (box.right - box.left)))), found = [];
    for (let f = 0; f < curve.length; f += per) {
      let [low, high] = [f, f];
      for (let g = f; g < Math.min(curve.length, f + per); g++) {
        if (curve[g] < curve[low]) low = g;
        if (curve[g] > curve[high]) high = g;
      }
      for (const g of low === high ? [low] : [Math.min(low, high), Math.max(low, high)]) {
        const y = box.py(curve[g]);
        found.push([box.px(steps[frames ? frames[g] : g]), y === -Infinity || Number.isNaN(y) ? NaN : y]);
      }
    }
    return found;
  }

  legend(pen, w, entries) {
    pen.font = "9px system-ui, sans-serif";
    pen.textAlign = "right";
    let x = w - 6;
    for (const [text, colour] of entries.slice().reverse()) {
      if (x < 90) break;
      pen.fillStyle = colour;
      pen.fillText(text, x, 14);
      x -= 6 + 5.2 * text.length;
    }
  }
}

class CurvesPanel extends TimePanel {
  get title() {
    return this.view.title || this.view.names.join(", ");
  }

  lines(pen, box, w, h) {
    const { names, log } = this.view, runs = this.app.data.runs, many = names.length > 2;
    const shown = many ? [this.side.machine.run] : runs;
    const curves = shown.flatMap((run) => names.map((name) => run.curves[name]).filter(Boolean));
    if (!this.scaled(box, curves, log)) return this.nothing(pen, w, h, "not recorded for this run");
    box.clipped(() => {
      if (many) names.forEach((name, k) => runs.length && this.one(pen, box, shown[0].curves[name], hue(k, names.length)));
      else names.forEach((name, k) => this.bands(pen, box, name, k));
    });
    if (many) this.legend(pen, w, names.map((name, k) => [name.split(" ").pop(), hue(k, names.length)]));
    else if (names.length > 1) this.legend(pen, w, [[`${names[1]} dashed`, theme.faint]]);
  }

  one(pen, box, curve, colour, width = 1.2) {
    if (curve) line(pen, this.path(box, curve), colour, width);
  }

  // the seeds of every width: the band between their quantiles, and their median; the limit in front
  bands(pen, box, name, k) {
    for (const width of this.app.data.widths) {
      const curves = this.app.data.runs.filter((run) => run.width === width.width && run.curves[name]).map((run) => run.curves[name]);
      if (!curves.length) continue;
      const length = Math.min(...curves.map((c) => c.length)), sorted = Array.from({ length }, (_, f) => ordered(curves.map((c) => c[f])));
      const [low, median, high] = BAND.map((share) => Float64Array.from(sorted, (v) => quantile(v, share)));
      if (curves.length > 1) band(pen, this.path(box, low), this.path(box, high), width.colour);
      pen.setLineDash(k ? [4, 3] : []);
      this.one(pen, box, median, width.colour, width.width === null ? 2 : 1.2);
      pen.setLineDash([]);
    }
  }
}

// a number over training, a line for every run and a band for every width; of several entries those of this run, and
// of its limit dashed
class TracePanel extends TimePanel {
  fresh() {
    const own = this.side.machine.run, limit = this.limit(), app = this.app;
    const entries = this.meta().dims.reduce((n, d) => n * (d.kind === "probe" ? 1 : d.size), 1);
    const known = app.data.runs.filter((run) => Object.keys(run.arrays).length);
    this.single = entries === 1;
    this.runs = this.single ? known : [own, ...(limit ? [limit.run] : [])];
    this.histories = this.runs.map((run) => app.history(run, this.view.value));
    return [...this.histories.map((h) => h.done), app.picked.probe || 0, app.inputs.version].join();
  }

  get title() {
    const probe = this.meta().dims.some((d) => d.kind === "probe");
    return (this.view.title || this.view.value) + (probe ? ` · ${this.app.nameOf({ probe: this.app.picked.probe || 0 }, ["probe"])}` : "");
  }

  lines(pen, box, w, h) {
    if (pen instanceof SvgPen) this.fresh();
    const parts = this.histories.map((history) => this.entries(history));
    if (!this.scaled(box, parts.flatMap((p) => p.map((e) => e.curve)), false)) return this.nothing(pen, w, h, "being computed, or not recorded");
    box.clipped(() => (this.single ? this.byWidth(pen, box, parts) : this.byEntry(pen, box, parts)));
  }

  byEntry(pen, box, parts) {
    parts.forEach((part, k) => {
      pen.setLineDash(k ? [4, 3] : []);
      part.forEach(({ curve, frames }, i) => line(pen, this.path(box, curve, frames), k ? theme.ink : hue(i, part.length), 1.2));
      pen.setLineDash([]);
    });
  }

  byWidth(pen, box, parts) {
    for (const { width, colour } of this.app.data.widths) {
      const own = parts.filter((part, k) => part.length && this.runs[k].width === width).map((part) => part[0]);
      if (own.length > 1 && own.every((e) => e.frames.length === own[0].frames.length)) {
        const of = own[0].frames.map((_, f) => ordered(own.map((e) => e.curve[f]))), frames = own[0].frames;
        const [low, , high] = BAND.map((share) => of.map((v) => quantile(v, share)));
        band(pen, this.path(box, low, frames), this.path(box, high, frames), colour);
      }
      own.forEach(({ curve, frames }) => line(pen, this.path(box, curve, frames), colour, width === null ? 2 : 1.2));
    }
  }

  entries(history) {
    const meta = this.meta(), frames = [...history.values.keys()].sort((a, b) => a - b);
    if (!frames.length) return [];
    const points = layout(meta, "", history.machine), probe = Math.min(this.app.picked.probe || 0, history.machine.samples - 1);
    const chosen = where(points, points.keys.probe ? [["probe", probe]] : []).slice(0, 24);
    return chosen.map((p) => ({ frames, curve: Float64Array.from(frames, (f) => history.values.get(f)[points.base[p]]) }));
  }
}

// the quantiles of bands: of few seeds, nearly the smallest and the largest
const BAND = [0.1, 0.5, 0.9];

const ordered = (values) => Float64Array.from(values).sort();

// between the entries of an ordered array
function quantile(sorted, share) {
  const place = share * (sorted.length - 1), below = Math.floor(place), above = Math.min(sorted.length - 1, below + 1);
  return sorted[below] + (place - below) * (sorted[above] - sorted[below]);
}

function band(pen, low, high, colour) {
  pen.fillStyle = colour;
  pen.globalAlpha = 0.18;
  pen.beginPath();
  [...low, ...high.reverse()].filter(([, y]) => Number.isFinite(y)).forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)));
  pen.fill();
  pen.globalAlpha = 1;
}

class ErrorsPanel extends Panel {
  get title() {
    return this.view.title || "error against width";
  }

  paint(pen, frame, w, h) {
    const { frames, rows } = this.app.data.errors, at = frames.reduce((b, f, i) => (Math.abs(f - this.app.frame) < Math.abs(frames[b] - this.app.frame) ? i : b), 0);
    const points = rows.map((row) => [Math.log10(row.width), Math.log10(row.values[at])]).filter(([, y]) => Number.isFinite(y));
    if (!points.length) return this.nothing(pen, w, h, "no error at this frame");
    const [xs, ys] = [points.map((p) => p[0]), points.map((p) => p[1])], all = rows.flatMap((row) => row.values).filter((v) => v > 0).map(Math.log10);
    const y = [Math.min(...all) - 0.1, Math.max(...all) + 0.1];
    frame.scales([Math.min(...xs) - 0.2, Math.max(...xs) + 0.2], y, true).axes(false);
    pen.textAlign = "center";
    for (const width of new Set(rows.map((row) => row.width))) pen.fillText(String(width), frame.px(Math.log10(width)), frame.bottom + 10);
    const first = Math.min(...xs), level = together(points, first);
    pen.setLineDash([4, 3]);
    const height = (v) => frame.py(10 ** v);
    line(pen, [first, Math.max(...xs)].map((x) => [frame.px(x), height(level - (x - first) / 2)]), theme.faint);
    pen.setLineDash([]);
    const means = [...new Set(xs)].sort((a, b) => a - b).map((x) => [frame.px(x), height(together(points, x))]);
    line(pen, means, theme.ink, 1.2);
    pen.fillStyle = theme.accent;
    pen.beginPath();
    for (const [x, v] of points) mark(pen, frame.px(x), height(v), 3, 0);
    pen.fill();
    pen.fillStyle = theme.faint;
    pen.textAlign = "right";
    pen.fillText("dashed: slope −1/2", w - 6, 14);
  }

  hit() {
    return null;
  }
}

// the root of the mean square over the seeds of a width, as a logarithm
function together(points, x) {
  const squares = points.filter((p) => p[0] === x).map((p) => 10 ** (2 * p[1]));
  return Math.log10(squares.reduce((a, b) => a + b, 0) / squares.length) / 2;
}
