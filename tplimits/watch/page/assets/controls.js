// Buttons, keys, probes that are typed, pictures and films.

function controls(app) {
  $("frame").max = app.frames - 1;
  $("frame").addEventListener("input", (event) => app.at(+event.target.value));
  $("frame").addEventListener("change", () => app.address());
  $("play").addEventListener("click", () => app.play(!app.playing));
  $("speed").addEventListener("input", (event) => app.setSpeed(+event.target.value));
  $("svg").addEventListener("click", () => saved(new Blob([still(app)], { type: "image/svg+xml" }), `frame-${app.frame}.svg`));
  $("film").hidden = !(window.MediaRecorder && HTMLCanvasElement.prototype.captureStream);
  $("film").addEventListener("click", () => film(app));
  document.addEventListener("keydown", (event) => pressed(app, event));
  window.addEventListener("hashchange", () => app.follow());
  window.addEventListener("resize", () => (app.moved = true));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    coloured(app);
    app.moved = true;
  });
  for (const [id, other] of [["run", false], ["beside", true]]) {
    const select = $(id);
    if (other) select.append(element("option", "nothing", { value: "" }));
    for (const run of app.data.runs) {
      if (Object.keys(run.arrays).length) select.append(element("option", run.title, { value: run.number }));
    }
    select.addEventListener("change", () => chosen(app));
  }
}

function coloured(app) {
  readTheme();
  shades.fill(undefined);
  $("widths").replaceChildren();
  for (const width of app.data.widths) {
    width.colour = width.width === null ? theme.ink : HUES[width.k % HUES.length];
    const chip = element("span", width.width === null ? "limit" : `width ${width.width}`);
    chip.style.color = width.colour;
    $("widths").append(chip);
  }
}

function chosen(app) {
  const run = (id) => ($(id).value === "" ? null : app.data.runs[+$(id).value]);
  app.show(run("run"), run("beside"));
  app.address();
}

function selected(app) {
  $("run").value = app.sides[0].machine.run.number;
  $("beside").value = app.sides[1] ? app.sides[1].machine.run.number : "";
}

// keys of the page; in fields they write
function pressed(app, event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const tag = event.target.tagName, field = tag === "SELECT" || tag === "TEXTAREA" || (tag === "INPUT" && event.target.type !== "range");
  if (field || (tag === "BUTTON" && (event.key === " " || event.key === "Enter")) || (event.target.type === "range" && event.target.id !== "frame")) return;
  const jump = event.shiftKey ? 10 : 1, probe = app.over && app.over.probe !== undefined ? app.over.probe : -1;
  const keys = {
    " ": () => app.play(!app.playing),
    ArrowRight: () => app.at(app.frame + jump),
    ArrowLeft: () => app.at(app.frame - jump),
    Home: () => app.at(0),
    End: () => app.at(app.frames - 1),
    "+": () => app.setSpeed(app.speed * 1.5),
    "-": () => app.setSpeed(app.speed / 1.5),
    n: () => app.hover({ probe: (probe + 1) % app.inputs.count }, true),
    p: () => app.hover({ probe: (Math.max(0, probe) - 1 + app.inputs.count) % app.inputs.count }, true),
    Escape: () => app.hover(null, true),
  };
  if (!Object.hasOwn(keys, event.key)) return;
  event.preventDefault();
  keys[event.key]();
  if (!app.playing) app.address();
}

// -- probes

// a row of fields for every input of a probe: numbers are typed, Alt with an arrow moves one to its neighbour's place
function edited(app, p) {
  const host = $("fields");
  host.replaceChildren(element("strong", app.probeName(p)));
  app.data.inputs.forEach((input, k) => {
    const row = element("div", undefined, { class: "row" }), count = Math.min(input.size, 64);
    row.append(element("label", input.name));
    for (let j = 0; j < count; j++) {
      const attributes = { type: "number", "aria-label": `${input.name} ${j}`, step: input.whole ? 1 : "any" };
      if (input.vocab) Object.assign(attributes, { min: 0, max: input.vocab - 1 });
      const field = element("input", undefined, attributes);
      field.value = +app.inputs.rows[p][k][j].toPrecision(6);
      field.addEventListener("input", () => typed(app, p, k, j, field));
      field.addEventListener("keydown", (event) => {
        const other = j + { ArrowLeft: -1, ArrowRight: 1 }[event.key];
        if (!event.altKey || !(other >= 0 && other < count)) return;
        event.preventDefault();
        app.inputs.swap(p, k, j, other);
        edited(app, p);
        $("fields").querySelectorAll(".row")[k].querySelectorAll("input")[other].focus();
        app.moved = true;
      });
      row.append(field);
    }
    host.append(row);
  });
}

function typed(app, p, k, j, field) {
  const value = field.value.trim() === "" ? NaN : Number(field.value), input = app.data.inputs[k];
  const legal = Number.isFinite(value) && (!input.whole || (Number.isInteger(value) && value >= 0 && (!input.vocab || value < input.vocab)));
  field.setCustomValidity(legal ? "" : input.vocab ? `a whole number from 0 to ${input.vocab - 1}` : "a number");
  field.reportValidity();
  if (!legal) return;
  app.inputs.change(p, k, j, value);
  $("fields").firstChild.textContent = app.probeName(p);
  app.moved = true;
}

function probes(app) {
  $("add").addEventListener("click", () => {
    const p = app.inputs.add(Math.min(app.picked.probe || 0, app.inputs.count - 1));
    app.hover({ probe: p }, true);
  });
  $("shuffle").addEventListener("click", () => {
    const p = Math.min(app.picked.probe || 0, app.inputs.count - 1);
    app.data.inputs.forEach((input, k) => {
      for (let j = Math.min(input.size, 64) - 1; j > 0; j--) app.inputs.swap(p, k, j, Math.floor(Math.random() * (j + 1)));
    });
    edited(app, p);
    app.moved = true;
  });
  $("reset").addEventListener("click", () => {
    app.inputs.reset();
    for (const machine of app.machines.values()) {
      machine.keep.forEach((keep) => keep.fill(1));
      machine.forget();
    }
    app.picked = Object.create(null);
    app.hover(null, true);
    edited(app, 0);
    removals(app);
    app.moved = true;
  });
  edited(app, 0);
  removals(app);
}

function removals(app) {
  const count = app.sides.reduce((n, side) => n + side.machine.keep.reduce((m, keep) => m + keep.filter((k) => k === 0).length, 0), 0);
  $("removed").textContent = count ? `${count} ${count === 1 ? "neuron" : "neurons"} removed; a click on a cross puts it back` : "a click on a neuron removes it";
}

// -- pictures and films

function saved(blob, name) {
  const link = element("a", undefined, { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// where panels stand in a picture of them all
function placed(app) {
  const sides = app.sides.map((side) => side.panels), columns = Math.ceil(Math.sqrt(sides[0].length)), [w, h] = [250, 220];
  const rows = Math.ceil(sides[0].length / columns), places = [];
  sides.forEach((panels, s) =>
    panels.forEach(({ panel }, i) => places.push({ panel, x: (i % columns) * w + s * (columns * w + 20), y: 24 + Math.floor(i / columns) * h })),
  );
  return { places, w, h, width: sides.length * columns * w + (sides.length - 1) * 20, height: 24 + rows * h };
}

function pictured(app, pen, { places, w, h }) {
  pen.fillStyle = theme.ink;
  pen.font = "bold " + theme.font;
  pen.textAlign = "left";
  const shown = app.sides.map((side) => side.machine.run.title).join(" beside ");
  pen.fillText(`${app.data.title}, step ${app.data.steps[app.frame]}: ${shown}`, 6, 16);
  for (const { panel, x, y } of places) {
    pen.save();
    pen.translate(x, y);
    panel.draw(pen, w, h);
    pen.restore();
  }
}

function still(app) {
  const pen = new SvgPen(), plan = placed(app);
  pictured(app, pen, plan);
  app.moved = true;
  return pen.file(plan.width, plan.height);
}

function painted(app, canvas) {
  const plan = placed(app), pen = canvas.getContext("2d"), size = [plan.width + (plan.width % 2), plan.height + (plan.height % 2)];
  if (canvas.width !== size[0] || canvas.height !== size[1]) [canvas.width, canvas.height] = size;
  pen.fillStyle = theme.ground;
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pictured(app, pen, plan);
  return canvas;
}

// from here to the last frame, at the speed that is set, as the browser encodes it: every frame is handed over as drawn
function film(app) {
  const canvas = painted(app, element("canvas")), stream = canvas.captureStream(0), [track] = stream.getVideoTracks();
  const recorder = new MediaRecorder(stream, { videoBitsPerSecond: 8e6 }), parts = [];
  recorder.ondataavailable = (event) => parts.push(event.data);
  recorder.onstop = () => saved(new Blob(parts, { type: recorder.mimeType }), "training.webm");
  recorder.start();
  app.play(false);
  const turn = () => {
    painted(app, canvas);
    track.requestFrame();
    $("film").disabled = app.frame < app.frames - 1;
    if (app.frame === app.frames - 1) return setTimeout(() => recorder.stop(), 1000 / app.speed + 100);
    setTimeout(() => {
      app.at(app.frame + 1);
      turn();
    }, 1000 / app.speed);
  };
  turn();
}

async function started() {
  const { header, bytes } = await unpacked($("payload").textContent.trim());
  const app = new App(header, bytes);
  document.title = `${header.title} in training`;
  $("title").textContent = header.title;
  $("about").textContent = header.about;
  coloured(app);
  controls(app);
  app.follow();
  selected(app);
  window.addEventListener("hashchange", () => selected(app));
  probes(app);
  app.setSpeed(20);
  app.tick(performance.now());
  document.body.dataset.ready = "yes";
  return app;
}

// tests and films ask for what is shown
window.page = started();
window.page.catch((error) => ($("title").textContent = `This page could not be read: ${error.message}`));
