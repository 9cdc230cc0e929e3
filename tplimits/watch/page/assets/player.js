// The page: what is shown at which frame, and what a reader does.

const PANELS = {
  ...{ plane: PlanePanel, triangle: TrianglePanel, matrix: MatrixPanel, density: DensityPanel },
  ...{ levels: LevelsPanel, curves: CurvesPanel, trace: TracePanel, errors: ErrorsPanel },
};

const $ = (id) => document.getElementById(id);

function element(tag, text, attributes = {}) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

class App {
  constructor(header, bytes) {
    this.data = this.read(header, bytes);
    this.inputs = new Inputs(this.data.inputs, header.probes.count);
    this.frames = this.data.steps.length;
    this.frame = this.frames - 1;
    this.speed = 20;
    this.playing = false;
    this.over = null;
    this.pinned = null;
    this.picked = Object.create(null);
    this.histories = new Map();
    this.machines = new Map();
    this.sides = [];
  }

  // the limit beside a run: that of its seed, whose random numbers it shares, or the only one
  limitOf(run) {
    const limits = this.data.runs.filter((other) => other.width === null && Object.keys(other.arrays).length);
    const found = limits.find((other) => other.seed === run.seed) || (limits.length === 1 ? limits[0] : null);
    return found && this.machine(found).at(this.frame, this.inputs);
  }

  read(header, bytes) {
    const constants = Object.fromEntries(Object.entries(header.constants).map(([id, values]) => [id, Float64Array.from(values)]));
    const data = { ...header, constants };
    data.runs = header.runs.map((run, number) => {
      const arrays = {};
      for (const [id, held] of Object.entries(run.arrays)) arrays[id] = { ...held, frames: held.pack.frames, size: held.pack.size, data: moving(held.pack, bytes) };
      const curves = Object.fromEntries(Object.entries(run.curves).map(([name, pack]) => [name, floats(pack, bytes)]));
      return { ...run, number, arrays, curves };
    });
    const widths = [...new Set(data.runs.map((run) => run.width))].sort((a, b) => (a ?? Infinity) - (b ?? Infinity));
    data.widths = widths.map((width, k) => ({ width, k }));
    return data;
  }

  machine(run) {
    if (!this.machines.has(run)) this.machines.set(run, new Machine(run, this.data));
    return this.machines.get(run);
  }

  // the machine of a run at its last frame on the recorded probes
  atEnd(run) {
    return new Machine(run, this.data).at(this.frames - 1, this.inputs);
  }

  // what a value was at some frames, computed while there is time
  history(run, name) {
    const key = run.number + "|" + name;
    if (!this.histories.has(key)) {
      const count = Math.min(this.frames, 80), frames = Array.from({ length: count }, (_, i) => Math.round((i * (this.frames - 1)) / Math.max(1, count - 1)));
      this.histories.set(key, { name, machine: new Machine(run, this.data), left: frames, values: new Map(), done: 0 });
    }
    return this.histories.get(key);
  }

  work(until) {
    let moved = false;
    for (const history of this.histories.values()) {
      if (history.inputs !== this.inputs.version) {
        history.left.push(...history.values.keys());
        history.values.clear();
        history.inputs = this.inputs.version;
      }
      while (history.left.length && performance.now() < until) {
        const frame = history.left.pop(), value = history.machine.at(frame, this.inputs).get(this.data.values[history.name].id);
        if (value) history.values.set(frame, Float64Array.from(value));
        if (!history.left.length || history.left.length % 16 === 0) {
          history.done++;
          moved = true;
        }
      }
    }
    return moved;
  }

  // -- names and colours of probes

  probeColour(p) {
    const { colours, classes } = this.data.probes, given = colours || classes;
    const key = given ? (p < given.length ? given[p] : given.length) : p;
    return hue(key, given ? 1 + Math.max(...given) : this.inputs.count);
  }

  probeMark(p) {
    const { marks, classes, colours } = this.data.probes;
    return marks ? marks[p] || 0 : colours && classes ? (classes[p] || 0) % 3 : 0;
  }

  probeName(p, brief) {
    const { texts } = this.data.probes;
    if (texts && p < texts.length && this.inputs.asRecorded) return texts[p];
    const row = this.inputs.rows[p];
    if (this.data.inputs.every((i) => i.whole && i.size <= 40)) return row.map((x) => Array.from(x).join(brief ? "" : " ")).join(" | ");
    return `probe ${p}`;
  }

  nameOf(keys, names, brief) {
    return names.map((key) => (key === "probe" ? this.probeName(keys[key], brief) : brief ? String(keys[key]) : `${key} ${keys[key]}`)).join(", ");
  }

  // -- sides

  show(first, second) {
    const runs = [first, second].filter((run) => run);
    const host = $("sides");
    host.replaceChildren();
    host.classList.toggle("two", runs.length > 1);
    this.sides = runs.map((run) => new Side(this, run, host));
    this.moved = true;
  }

  at(frame) {
    this.frame = Math.max(0, Math.min(this.frames - 1, frame));
    this.moved = true;
  }

  draw() {
    for (const side of this.sides) side.draw();
    $("frame").value = this.frame;
    $("step").textContent = `step ${this.data.steps[this.frame]} · frame ${this.frame} of ${this.frames - 1}`;
    $("over").textContent = this.over ? this.nameOf(this.over, Object.keys(this.over)) : "";
  }

  // one turn of the clock: the next frame when playing, and a picture when something has changed
  tick(now) {
    if (this.playing) {
      const due = Math.floor(((now - this.began) * this.speed) / 1000);
      if (due > this.counted) {
        const next = this.frame + due - this.counted;
        this.counted = due;
        this.at(next >= this.frames ? (this.frame >= this.frames - 1 ? 0 : this.frames - 1) : next);
      }
    }
    if (this.work(performance.now() + 4)) this.moved = true;
    if (this.moved) {
      this.moved = false;
      this.draw();
    }
    requestAnimationFrame((then) => this.tick(then));
  }

  play(whether) {
    this.playing = whether;
    this.began = performance.now();
    this.counted = 0;
    if (whether && this.frame === this.frames - 1) this.at(0);
    $("play").textContent = whether ? "Pause" : "Play";
    if (!whether) this.address();
  }

  setSpeed(speed) {
    this.speed = Math.max(1, Math.min(240, Math.round(speed)));
    this.began = performance.now();
    this.counted = 0;
    $("speed").value = this.speed;
  }

  pick(keys) {
    Object.assign(this.picked, keys);
    for (const select of document.querySelectorAll("select[data-key]")) {
      if (Object.hasOwn(keys, select.dataset.key)) select.value = keys[select.dataset.key];
    }
    this.moved = true;
  }

  hover(keys, pin = false) {
    if (pin) {
      this.pinned = keys;
      this.pick(keys || Object.create(null));
      if (keys && keys.probe !== undefined) edited(this, keys.probe);
    }
    const next = keys || this.pinned;
    if (JSON.stringify(next) !== JSON.stringify(this.over) || pin) {
      this.over = next;
      this.moved = true;
    }
  }

  // -- the address

  address() {
    const parts = [`frame=${this.frame}`, ...this.sides.map((side, k) => `${k ? "beside" : "run"}=${side.machine.run.number}`)];
    try {
      history.replaceState(null, "", "#" + parts.join("&"));
    } catch {
      // an address that cannot be written is left as it is
    }
  }

  follow() {
    const asked = new URLSearchParams(location.hash.slice(1)), number = (key) => (/^\d+$/.test(asked.get(key) || "") ? +asked.get(key) : NaN);
    const first = this.data.runs[number("run")], second = this.data.runs[number("beside")];
    const usable = (run) => run && (Object.keys(run.arrays).length ? run : null);
    const preferred = this.data.runs.find((run) => run.width !== null && usable(run)) || this.data.runs[0];
    this.show(usable(first) || (this.sides[0] && this.sides[0].machine.run) || preferred, usable(second) || null);
    if (!Number.isNaN(number("frame"))) this.at(number("frame"));
  }
}

// one run with all its panels
class Side {
  constructor(app, run, host) {
    this.app = app;
    this.machine = app.machine(run).at(app.frame, app.inputs);
    const box = element("section"), head = element("h2", run.title);
    this.grid = element("div", undefined, { class: "grid" });
    box.append(head, this.grid);
    host.append(box);
    this.panels = app.data.views.map((view) => this.panel(view));
  }

  panel(view) {
    const figure = element("figure"), canvas = element("canvas", undefined, { role: "img" });
    figure.append(canvas);
    this.grid.append(figure);
    const panel = new PANELS[view.kind](view, this.app, this);
    canvas.setAttribute("aria-label", panel.title);
    const choosers = element("div", undefined, { class: "choosers" });
    if (view.kind === "plane" && panel.size > 2) choosers.append(this.chooser(panel));
    for (const dim of panel.choices) choosers.append(this.picker(dim));
    figure.append(choosers);
    const at = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    canvas.addEventListener("pointermove", (event) => this.app.hover(panel.hit(...at(event))));
    canvas.addEventListener("pointerleave", () => this.app.hover(null));
    canvas.addEventListener("click", (event) => this.clicked(panel, ...at(event)));
    return { panel, canvas };
  }

  clicked(panel, x, y) {
    if (panel instanceof TimePanel) {
      const frame = panel.frameAt(x);
      if (frame !== null) this.app.at(frame);
      return this.app.address();
    }
    const keys = panel.hit(x, y);
    if (keys && panel instanceof DensityPanel) {
      const width = panel.meta().dims.find((d) => d.kind === "neuron").width;
      this.machine.remove(width, keys.neuron, this.machine.keep[width][keys.neuron] === 1);
      this.app.moved = true;
      removals(this.app);
    }
    this.app.hover(keys, true);
  }

  // which index of an axis is shown, in all panels that show one of it
  picker(dim) {
    const select = element("select", undefined, { "aria-label": dim.axis, "data-key": dim.key });
    for (let k = 0; k < Math.min(dim.size, 500); k++) select.append(element("option", `${dim.axis} ${k}`, { value: k }));
    select.value = this.app.picked[dim.key] || 0;
    select.addEventListener("change", () => this.app.pick(Object.assign(Object.create(null), { [dim.key]: +select.value })));
    return select;
  }

  // which two of many entries are the coordinates
  chooser(panel) {
    const select = element("select", undefined, { "aria-label": "coordinates" }), pairs = [null];
    for (let k = 0; k + 1 < Math.min(panel.size, 20); k += 2) pairs.push([k, k + 1]);
    pairs.forEach((pair, k) => select.append(element("option", pair ? `entries ${pair[0]}, ${pair[1]}` : "principal", { value: k })));
    select.value = panel.pair ? Math.max(1, pairs.findIndex((p) => p && p[0] === panel.pair[0])) : 0;
    select.addEventListener("change", () => {
      panel.pair = pairs[select.value];
      this.app.moved = true;
    });
    return select;
  }

  draw() {
    this.machine.at(this.app.frame, this.app.inputs);
    const ratio = devicePixelRatio || 1;
    for (const { panel, canvas } of this.panels) {
      const w = canvas.clientWidth, h = canvas.clientHeight;
      if (!w || !h) continue;
      if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(h * ratio)) {
        canvas.width = Math.round(w * ratio);
        canvas.height = Math.round(h * ratio);
      }
      const pen = canvas.getContext("2d");
      pen.setTransform(ratio, 0, 0, ratio, 0, 0);
      pen.fillStyle = theme.ground;
      pen.fillRect(0, 0, w, h);
      panel.draw(pen, w, h);
    }
  }
}
