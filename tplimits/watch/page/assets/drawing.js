// Colours, scales and axes, and a pen that writes SVG.

const HUES = ["#3b75af", "#ef8536", "#519e3e", "#c53a32", "#8d69b8", "#84584e", "#d57dbe", "#b8ae2c", "#56b4c8", "#7f7f7f"];
const theme = {};

function readTheme() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["ground", "ink", "faint", "grid", "accent"]) theme[name] = style.getPropertyValue("--" + name).trim();
  theme.dark = matchMedia("(prefers-color-scheme: dark)").matches;
  theme.font = "11px system-ui, sans-serif";
}

const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
const mixed = (a, b, t) => "#" + rgb(a).map((x, i) => Math.round(x + (rgb(b)[i] - x) * t).toString(16).padStart(2, "0")).join("");
const shades = Array(256);

// a colour of index k of `count`; with many of them, hues around the circle
function hue(k, count) {
  if (!Number.isInteger(k)) return mixed(hue(Math.floor(k), count), theme.ground, 0.9 * (k - Math.floor(k)));
  if (count <= HUES.length) return HUES[((k % 10) + 10) % 10];
  return `hsl(${Math.round((360 * k) / count)} 62% ${theme.dark ? 62 : 46}%)`;
}

// from the ground to blue
function shade(t) {
  const k = Math.max(0, Math.min(255, Math.round(255 * t)));
  return (shades[k] = shades[k] || mixed(theme.ground, theme.dark ? "#7db4f0" : "#134a8e", k / 255));
}

// steps of 1, 2 or 5 between two numbers
function ticks(low, high, about) {
  const raw = (high - low) / Math.max(1, about), power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((s) => s * power >= raw * 0.999), found = [];
  for (let x = Math.ceil(low / step - 1e-9) * step; x <= high + step * 1e-9; x += step) found.push(Math.abs(x) < step / 1e6 ? 0 : x);
  return found;
}

// logarithms to mark between two others: powers of ten, and where there are few of them also 2 and 5 times these
function powers(low, high) {
  const found = [], each = Math.max(1, Math.ceil((high - low) / 6));
  for (let k = Math.floor(low); k <= high; k += each) {
    for (const m of high - low > 2.2 ? [1] : [1, 2, 5]) if (k + Math.log10(m) >= low && k + Math.log10(m) <= high) found.push(k + Math.log10(m));
  }
  return found.length ? found : ticks(low, high, 3);
}

const short = (x) => (x === 0 ? "0" : Math.abs(x) >= 1e4 || Math.abs(x) < 1e-3 ? x.toExponential(0) : String(+x.toPrecision(3)));
const digits = (x) => (Number.isFinite(x) ? String(+x.toPrecision(4)) : String(x));

// limits that leave a margin and stay where they are while the data moves a little
function snapped(low, high) {
  if (!(low <= high)) return [-1, 1];
  const span = Math.max(high - low, 1e-9 * Math.max(Math.abs(low), Math.abs(high)), 1e-12);
  const step = 10 ** Math.floor(Math.log10(span)) / (span / 10 ** Math.floor(Math.log10(span)) > 4 ? 1 : 2);
  return [Math.floor((low - 0.06 * span) / step) * step, Math.ceil((high + 0.06 * span) / step) * step];
}

// a box of the panel with two scales
class Frame {
  constructor(pen, width, height, margin) {
    this.pen = pen;
    [this.left, this.top, this.right, this.bottom] = [margin.left, margin.top, width - margin.right, height - margin.bottom];
  }

  scales(x, y, logarithmic) {
    this.x = x;
    this.y = y;
    this.logarithmic = logarithmic;
    return this;
  }

  // the same unit on both axes
  square(x, y) {
    const w = this.right - this.left, h = this.bottom - this.top;
    const unit = Math.max((x[1] - x[0]) / w, (y[1] - y[0]) / h);
    const widened = ([a, b], length) => [(a + b - unit * length) / 2, (a + b + unit * length) / 2];
    return this.scales(widened(x, w), widened(y, h));
  }

  px(x) {
    return this.left + ((x - this.x[0]) / (this.x[1] - this.x[0])) * (this.right - this.left);
  }

  py(y) {
    const value = this.logarithmic ? Math.log10(y) : y;
    return this.bottom - ((value - this.y[0]) / (this.y[1] - this.y[0])) * (this.bottom - this.top);
  }

  axes(xs = true, ys = true) {
    const pen = this.pen;
    pen.font = "9px system-ui, sans-serif";
    pen.fillStyle = theme.faint;
    pen.strokeStyle = theme.grid;
    pen.lineWidth = 1;
    pen.beginPath();
    if (xs) {
      pen.textAlign = "center";
      for (const x of ticks(...this.x, (this.right - this.left) / 60)) {
        const p = Math.round(this.px(x)) + 0.5;
        pen.moveTo(p, this.top);
        pen.lineTo(p, this.bottom);
        pen.fillText(short(x), p, this.bottom + 10);
      }
    }
    if (ys) {
      pen.textAlign = "right";
      for (const y of this.logarithmic ? powers(...this.y) : ticks(...this.y, (this.bottom - this.top) / 40)) {
        const p = Math.round(this.bottom - ((y - this.y[0]) / (this.y[1] - this.y[0])) * (this.bottom - this.top)) + 0.5;
        pen.moveTo(this.left, p);
        pen.lineTo(this.right, p);
        pen.fillText(this.logarithmic ? (Number.isInteger(y) ? `1e${y}` : short(10 ** y)) : short(y), this.left - 3, p + 3);
      }
    }
    pen.stroke();
    return this;
  }

  clipped(draw) {
    this.pen.save();
    this.pen.beginPath();
    this.pen.rect(this.left, this.top, this.right - this.left, this.bottom - this.top);
    this.pen.clip();
    draw();
    this.pen.restore();
  }
}

// marks: 0 circle, 1 square, 2 triangle, 3 triangle downwards
function mark(pen, x, y, size, shape) {
  if (shape === 1) pen.rect(x - size, y - size, 2 * size, 2 * size);
  else if (shape >= 2) {
    const s = shape === 2 ? 1 : -1;
    pen.moveTo(x - size, y + s * size);
    pen.lineTo(x + size, y + s * size);
    pen.lineTo(x, y - s * size);
    pen.closePath();
  } else {
    pen.moveTo(x + size, y);
    pen.arc(x, y, size, 0, 6.2832);
  }
}

function line(pen, points, colour, width = 1) {
  pen.strokeStyle = colour;
  pen.lineWidth = width;
  pen.beginPath();
  let drawn = false;
  for (const [x, y] of points) {
    if (!Number.isFinite(y)) drawn = false;
    else if (drawn) pen.lineTo(x, y);
    else {
      pen.moveTo(x, y);
      drawn = true;
    }
  }
  pen.stroke();
}

// what panels call of a canvas, as SVG; text is escaped
class SvgPen {
  constructor() {
    this.out = [];
    this.path = "";
    this.clips = 0;
    this.open = [0];
    this.globalAlpha = 1;
    this.lineWidth = 1;
    this.dash = "";
    this.kept = [];
  }

  static text(value) {
    return String(value).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`).replace(/[^\P{C}\n]/gu, "");
  }

  beginPath() {
    this.path = "";
  }
  moveTo(x, y) {
    this.path += `M${+x.toFixed(2)} ${+y.toFixed(2)}`;
  }
  lineTo(x, y) {
    this.path += `L${+x.toFixed(2)} ${+y.toFixed(2)}`;
  }
  closePath() {
    this.path += "Z";
  }
  arc(x, y, r) {
    const [a, b, q] = [x - r, x + r, y].map((v) => +v.toFixed(2));
    this.path += `M${a} ${q}A${+r.toFixed(2)} ${+r.toFixed(2)} 0 1 0 ${b} ${q}A${+r.toFixed(2)} ${+r.toFixed(2)} 0 1 0 ${a} ${q}Z`;
  }
  rect(x, y, w, h) {
    this.path += `M${+x.toFixed(2)} ${+y.toFixed(2)}h${+w.toFixed(2)}v${+h.toFixed(2)}h${+(-w).toFixed(2)}Z`;
  }
  shown(paint) {
    const alpha = this.globalAlpha < 1 ? ` opacity="${this.globalAlpha}"` : "";
    this.out.push(`<path d="${this.path}" ${paint}${alpha}/>`);
  }
  fill() {
    this.shown(`fill="${SvgPen.text(this.fillStyle)}"`);
  }
  stroke() {
    const dash = this.dash ? ` stroke-dasharray="${this.dash}"` : "";
    this.shown(`fill="none" stroke="${SvgPen.text(this.strokeStyle)}" stroke-width="${this.lineWidth}"${dash}`);
  }
  fillRect(x, y, w, h) {
    this.beginPath();
    this.rect(x, y, w, h);
    this.fill();
  }
  strokeRect(x, y, w, h) {
    this.beginPath();
    this.rect(x, y, w, h);
    this.stroke();
  }
  fillText(value, x, y) {
    const anchor = { center: "middle", right: "end" }[this.textAlign] || "start", size = parseFloat(this.font);
    const bold = this.font.startsWith("bold") ? ' font-weight="bold"' : "";
    const alpha = this.globalAlpha < 1 ? ` opacity="${this.globalAlpha}"` : "";
    this.out.push(
      `<text x="${+x.toFixed(2)}" y="${+y.toFixed(2)}" text-anchor="${anchor}" font-family="sans-serif" ` +
        `font-size="${size || parseFloat(this.font.slice(5))}"${bold}${alpha} fill="${SvgPen.text(this.fillStyle)}">${SvgPen.text(value)}</text>`,
    );
  }
  setLineDash(parts) {
    this.dash = parts.join(" ");
  }
  clip() {
    this.clips++;
    this.out.push(`<clipPath id="clip${this.clips}"><path d="${this.path}"/></clipPath><g clip-path="url(#clip${this.clips})">`);
    this.open[this.open.length - 1]++;
  }
  translate(x, y) {
    this.out.push(`<g transform="translate(${x} ${y})">`);
    this.open[this.open.length - 1]++;
  }
  save() {
    this.open.push(0);
    this.kept.push([this.fillStyle, this.strokeStyle, this.lineWidth, this.globalAlpha, this.font, this.textAlign, this.dash]);
  }
  restore() {
    for (let k = this.open.pop(); k > 0; k--) this.out.push("</g>");
    [this.fillStyle, this.strokeStyle, this.lineWidth, this.globalAlpha, this.font, this.textAlign, this.dash] = this.kept.pop();
  }
  file(width, height) {
    return (
      `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}">` +
      `<rect width="${width}" height="${height}" fill="${theme.ground}"/>${this.out.join("\n")}</svg>`
    );
  }
}
