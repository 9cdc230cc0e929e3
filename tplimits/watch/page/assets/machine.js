// The network of one run at one frame: values are computed when a panel asks for them, and kept until something moves.

class Machine {
  constructor(run, data) {
    this.run = run;
    this.data = data;
    this.frame = 0;
    this.width = run.widths;
    this.keep = run.widths.map((n) => new Float64Array(n).fill(1));
    this.found = new Map();
    this.set = new Map();
    this.version = 0;
  }

  get samples() {
    return this.inputs.count;
  }

  // which inputs, and at which frame; values that do not change are kept
  at(frame, inputs) {
    if (frame === this.frame && inputs === this.inputs && inputs.version === this.seen) return this;
    this.frame = frame;
    this.inputs = inputs;
    this.seen = inputs.version;
    return this.forget();
  }

  forget() {
    this.found.clear();
    this.version++;
    return this;
  }

  remove(width, neuron, whether) {
    this.keep[width][neuron] = whether ? 0 : 1;
    this.forget();
  }

  // whether no neuron is removed
  get whole() {
    return this.keep.every((keep) => keep.every((k) => k === 1));
  }

  // the array of a value; null where it was not recorded and cannot be computed
  get(id) {
    if (this.set.has(id)) return this.set.get(id);
    if (this.found.has(id)) return this.found.get(id);
    const value = this.recorded(id) || this.computed(id);
    this.found.set(id, value);
    return value;
  }

  recorded(id) {
    const given = this.inputs.arrays[id] || this.data.constants[id];
    if (given) return given;
    const held = this.run.arrays[id];
    if (!held) return null;
    if (held.probes && !(this.inputs.asRecorded && this.whole)) return null;
    const kept = Math.min(Math.round(this.frame / held.stride), held.frames - 1);
    return held.data.subarray(kept * held.size, (kept + 1) * held.size);
  }

  computed(id) {
    const compute = COMPUTE[id];
    if (!compute || (this.run.recordedOnly && !this.set.size)) return null;
    try {
      return compute(this);
    } catch (error) {
      if (error instanceof Missing) return null;
      throw error;
    }
  }

  // what a computed function reads
  need(id) {
    const value = this.get(id);
    if (value === null) throw new Missing();
    return value;
  }
}

class Missing extends Error {}

// the inputs that are shown: the recorded probes, and those that a reader adds or changes
class Inputs {
  constructor(inputs, count) {
    this.inputs = inputs;
    this.original = inputs.map((i) => Float64Array.from(i.data));
    this.recorded = count;
    this.version = 0;
    this.reset();
  }

  reset() {
    this.rows = Array.from({ length: this.recorded }, (_, r) => this.inputs.map((i, k) => this.row(k, r)));
    this.asRecorded = true;
    this.filled();
  }

  row(k, r) {
    const size = this.inputs[k].size;
    return this.original[k].slice(r * size, (r + 1) * size);
  }

  change(r, k, place, value) {
    this.rows[r][k][place] = value;
    this.asRecorded = false;
    this.filled();
  }

  swap(r, k, first, second) {
    const row = this.rows[r][k];
    [row[first], row[second]] = [row[second], row[first]];
    this.asRecorded = false;
    this.filled();
  }

  add(from) {
    this.rows.push(this.rows[from].map((x) => x.slice()));
    this.asRecorded = false;
    this.filled();
    return this.rows.length - 1;
  }

  get count() {
    return this.rows.length;
  }

  // arrays by id, in the order of storage: the axis of inputs comes last
  filled() {
    this.version++;
    this.arrays = {};
    this.inputs.forEach((input, k) => {
      const all = new Float64Array(this.count * input.size);
      this.rows.forEach((row, r) => {
        for (let j = 0; j < input.size; j++) all[j * this.count + r] = row[k][j];
      });
      this.arrays[input.id] = all;
    });
  }

  // many copies of one input, for maps of the plane
  copies(r, count) {
    const arrays = {};
    this.inputs.forEach((input, k) => {
      const all = new Float64Array(count * input.size), row = this.rows[Math.min(r, this.count - 1)][k];
      for (let i = 0; i < count; i++) {
        for (let j = 0; j < input.size; j++) all[j * count + i] = row[j];
      }
      arrays[input.id] = all;
    });
    return { arrays, count, version: 0, asRecorded: false };
  }
}
