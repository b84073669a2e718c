"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const RANGE = 20000;
  const unpack = (text) => {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const view = new DataView(bytes.buffer);
    return Float64Array.from({ length: bytes.length / 2 }, (_, i) => view.getInt16(2 * i, true) / RANGE);
  };
  const make = (name, attributes, parent) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const key in attributes) node.setAttribute(key, attributes[key]);
    if (parent) parent.append(node);
    return node;
  };
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name);
  const clamp = (x, low, high) => Math.min(Math.max(x, low), high);

  // -- pictures in three dimensions ---------------------------------------------------------------------------------

  const INK = { body: ["#3d4a59", "#93a1b1"], slide: ["#5d6b7a", "#d3dae1"], rod: ["#5d6b7a", "#b4bfca"], base: ["#7d8894", "#b9c2cc"] };
  const WIDTH = { body: 0.03, slide: 0.019, rod: 0.013, base: 0.016 };

  class Scene {
    constructor(figure) {
      this.figure = figure;
      this.source = data.scenes[figure.dataset.scene];
      this.canvas = figure.querySelector("canvas");
      this.pen = this.canvas.getContext("2d");
      [this.azimuth, this.elevation] = this.source.view;
      this.moving = this.source.kind === "robot";
      if (this.moving) {
        this.frames = unpack(this.source.points);
        this.path = unpack(this.source.path);
        this.points = new Float64Array(3 * this.source.count);
        this.bounds = this.extent([this.frames, this.path]);
      } else {
        this.paths = this.source.paths.map(unpack);
        this.box = unpack(this.source.box);
        this.bounds = this.extent([this.box]);
      }
      this.turnable();
      matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
      new ResizeObserver(() => { this.resize(); this.draw(); }).observe(this.canvas);
      this.resize();
      this.at = 0;
      if (this.moving) this.player();
      this.draw();
    }

    extent(parts) {
      const low = [Infinity, Infinity, Infinity], high = [-Infinity, -Infinity, -Infinity];
      for (const part of parts) part.forEach((v, i) => { low[i % 3] = Math.min(low[i % 3], v); high[i % 3] = Math.max(high[i % 3], v); });
      return { low, high, middle: low.map((v, i) => (v + high[i]) / 2) };
    }

    resize() {
      const width = this.canvas.clientWidth || 800, ratio = this.moving ? 0.66 : 0.74;
      this.sharp = Math.max(window.devicePixelRatio || 1, 2);
      this.width = width;
      this.height = Math.round(width * ratio);
      this.canvas.width = Math.round(width * this.sharp);
      this.canvas.height = Math.round(this.height * this.sharp);
    }

    // The camera: seen from azimuth and elevation, mild perspective, everything that ever moves in view.
    aim() {
      const ca = Math.cos(this.azimuth), sa = Math.sin(this.azimuth), ce = Math.cos(this.elevation), se = Math.sin(this.elevation);
      this.toward = [ce * ca, ce * sa, se];
      this.right = [-sa, ca, 0];
      this.over = [-se * ca, -se * sa, ce];
      this.zoom = 1;
      this.shift = [0, 0];
      const { low, high } = this.bounds;
      let left = Infinity, right = -Infinity, top = Infinity, bottom = -Infinity;
      for (let k = 0; k < 8; k++) {
        const [x, y] = this.project(k & 1 ? high[0] : low[0], k & 2 ? high[1] : low[1], k & 4 ? high[2] : low[2]);
        left = Math.min(left, x); right = Math.max(right, x); top = Math.min(top, y); bottom = Math.max(bottom, y);
      }
      const margin = this.moving ? 0.92 : 0.74;
      this.zoom = margin * Math.min(this.width / Math.max(right - left, 1e-6), this.height / Math.max(bottom - top, 1e-6));
      this.shift = [this.width / 2 - this.zoom * (left + right) / 2, this.height / 2 - this.zoom * (top + bottom) / 2];
    }

    project(x, y, z) {
      const [mx, my, mz] = this.bounds.middle;
      x -= mx; y -= my; z -= mz;
      const depth = x * this.toward[0] + y * this.toward[1] + z * this.toward[2];
      const near = 7 / (7 - depth) * this.zoom;
      return [this.shift[0] + near * (x * this.right[0] + y * this.right[1]),
        this.shift[1] - near * (x * this.over[0] + y * this.over[1] + z * this.over[2]), depth, near];
    }

    line(from, to, color, width) {
      const pen = this.pen;
      pen.strokeStyle = color;
      pen.lineWidth = width;
      pen.beginPath();
      pen.moveTo(from[0], from[1]);
      pen.lineTo(to[0], to[1]);
      pen.stroke();
    }

    way(path, color, width) {
      const pen = this.pen;
      pen.strokeStyle = color;
      pen.lineWidth = width;
      pen.beginPath();
      for (let i = 0; i < path.length; i += 3) {
        const [x, y] = this.project(path[i], path[i + 1], path[i + 2]);
        i ? pen.lineTo(x, y) : pen.moveTo(x, y);
      }
      pen.stroke();
    }

    draw() {
      const pen = this.pen;
      pen.setTransform(this.sharp, 0, 0, this.sharp, 0, 0);
      pen.clearRect(0, 0, this.width, this.height);
      pen.lineCap = pen.lineJoin = "round";
      this.aim();
      this.moving ? this.drawRobot() : this.drawPaths();
    }

    // Positions between two frames by a cubic through the neighbouring ones (Catmull-Rom).
    pose() {
      const n = this.source.frames, size = 3 * this.source.count, k = Math.min(Math.floor(this.at), Math.max(n - 2, 0)), u = this.at - k;
      const frame = (i) => clamp(i, 0, n - 1) * size;
      const a = frame(k - 1), b = frame(k), c = frame(k + 1), d = frame(k + 2), f = this.frames;
      for (let i = 0; i < size; i++) {
        const p0 = f[a + i], p1 = f[b + i], p2 = f[c + i], p3 = f[d + i];
        this.points[i] = p1 + 0.5 * u * (p2 - p0 + u * (2 * p0 - 5 * p1 + 4 * p2 - p3 + u * (3 * (p1 - p2) + p3 - p0)));
      }
    }

    drawRobot() {
      this.pose();
      const { source, points, pen } = this, unit = source.size;
      const world = (i) => [points[3 * i], points[3 * i + 1], points[3 * i + 2]];
      const seen = Array.from({ length: source.count }, (_, i) => this.project(...world(i)));
      const floor = this.bounds.low[2] - 0.06 * unit;
      const ground = (i) => this.project(points[3 * i], points[3 * i + 1], floor);
      this.drawFloor(floor);
      for (const [ring] of source.plates) this.polygon(ring.map(ground), "rgba(30,41,59,.05)");
      for (const [a, b, kind] of source.links) this.line(ground(a), ground(b), "rgba(30,41,59,.07)", WIDTH[kind] * unit * seen[a][3]);
      const items = [];
      for (const [ring, kind] of source.plates) items.push([ring.reduce((s, i) => s + seen[i][2], 0) / ring.length, () => {
        const platform = kind === "platform";
        this.polygon(ring.map((i) => seen[i]), platform ? "rgba(31,111,235,.28)" : "rgba(110,123,138,.09)", platform ? "#1f6feb" : "#a4aeb9", platform ? 2 : 1.2);
      }]);
      for (const [a, b, kind] of source.links) items.push([(seen[a][2] + seen[b][2]) / 2, () => {
        const width = Math.max(WIDTH[kind] * unit * (seen[a][3] + seen[b][3]) / 2, 1.6);
        this.line(seen[a], seen[b], INK[kind][0], width);
        this.line(seen[a], seen[b], INK[kind][1], width * 0.6);
      }]);
      for (const [i, kind] of source.dots) items.push([seen[i][2] + 0.08 * unit, () => this.disc(seen[i], (kind === "motor" ? 0.021 : 0.0125) * unit * seen[i][3], kind === "motor" ? "#e07b1a" : "#f4f6f8", kind === "motor" ? "#9c4f06" : "#3d4a59")]);
      items.push([seen[source.tool][2] + 0.1 * unit, () => this.disc(seen[source.tool], 0.012 * unit * seen[source.tool][3], "#1f6feb", "#fff")]);
      this.way(this.path, "rgba(31,111,235,.45)", 1.2);
      items.sort((p, q) => p[0] - q[0]).forEach((item) => item[1]());
      source.triad.forEach((i, k) => this.line(seen[source.tool], seen[i], ["#d64545", "#2f9e58", "#1f6feb"][k], 2));
    }

    drawFloor(height) {
      const { low, high } = this.bounds, step = this.source.size / 5;
      const [x0, x1, y0, y1] = [low[0] - step, high[0] + step, low[1] - step, high[1] + step];
      for (let x = Math.ceil(x0 / step) * step; x <= x1; x += step) this.line(this.project(x, y0, height), this.project(x, y1, height), colour("--line"), 1);
      for (let y = Math.ceil(y0 / step) * step; y <= y1; y += step) this.line(this.project(x0, y, height), this.project(x1, y, height), colour("--line"), 1);
    }

    polygon(corners, fill, edge, width) {
      const pen = this.pen;
      pen.beginPath();
      corners.forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)));
      pen.closePath();
      pen.fillStyle = fill;
      pen.fill();
      if (edge) { pen.strokeStyle = edge; pen.lineWidth = width; pen.stroke(); }
    }

    disc([x, y], radius, fill, edge) {
      const pen = this.pen;
      pen.beginPath();
      pen.arc(x, y, Math.max(radius, 2), 0, 2 * Math.PI);
      pen.fillStyle = fill;
      pen.fill();
      pen.strokeStyle = edge;
      pen.lineWidth = 1;
      pen.stroke();
    }

    drawPaths() {
      const corner = (k) => this.project(this.box[3 * k], this.box[3 * k + 1], this.box[3 * k + 2]);
      const edges = [];
      for (let k = 0; k < 8; k++) for (const bit of [4, 2, 1]) if (!(k & bit)) edges.push([k, k | bit, bit]);
      for (const [a, b] of edges) this.line(corner(a), corner(b), colour("--quiet"), 1);
      this.paths.forEach((path, k) => this.way(path, this.source.held_out[k] ? "rgba(224,123,26,.85)" : "rgba(31,111,235,.85)", 1.4));
      const pen = this.pen;
      pen.font = "12px system-ui, sans-serif";
      pen.fillStyle = colour("--soft");
      pen.textAlign = "center";
      const centre = [this.width / 2, this.height / 2];
      [4, 2, 1].forEach((bit, axis) => {
        const extent = this.source.extent[axis];
        if (extent < 1e-9) return;
        // The edge of this direction that is lowest on the screen, or outermost for the upright one.
        const best = edges.filter((e) => e[2] === bit).map(([a, b]) => { const p = corner(a), q = corner(b); return [(p[0] + q[0]) / 2, (p[1] + q[1]) / 2, Math.abs(p[0] - q[0]) < Math.abs(p[1] - q[1])]; })
          .sort((p, q) => (p[2] ? p[0] - q[0] : q[1] - p[1]))[0];
        const away = [best[0] - centre[0], best[1] - centre[1]], size = Math.hypot(...away) || 1;
        pen.fillText(`${"xyz"[axis]}  ${extent >= 1 ? extent.toFixed(2) + " m" : extent >= 0.1 ? (1000 * extent).toFixed(0) + " mm" : (1000 * extent).toPrecision(2) + " mm"}`, clamp(best[0] + 34 * away[0] / size, 44, this.width - 44), clamp(best[1] + 20 * away[1] / size + 4, 14, this.height - 6));
      });
    }

    turnable() {
      let last = null;
      this.canvas.addEventListener("pointerdown", (e) => { last = [e.clientX, e.clientY]; this.canvas.setPointerCapture(e.pointerId); });
      this.canvas.addEventListener("pointermove", (e) => {
        if (!last) return;
        this.azimuth -= (e.clientX - last[0]) * 0.009;
        this.elevation = clamp(this.elevation + (e.clientY - last[1]) * 0.007, -1.4, 1.5);
        last = [e.clientX, e.clientY];
        this.draw();
      });
      for (const end of ["pointerup", "pointercancel"]) this.canvas.addEventListener(end, () => { last = null; });
      this.canvas.addEventListener("keydown", (e) => {
        const turn = { ArrowLeft: [0.1, 0], ArrowRight: [-0.1, 0], ArrowUp: [0, 0.1], ArrowDown: [0, -0.1] }[e.key];
        if (!turn) return;
        this.azimuth += turn[0];
        this.elevation = clamp(this.elevation + turn[1], -1.4, 1.5);
        e.preventDefault();
        this.draw();
      });
      this.canvas.addEventListener("dblclick", () => { [this.azimuth, this.elevation] = this.source.view; this.draw(); });
    }

    player() {
      const button = this.figure.querySelector(".play"), slider = this.figure.querySelector("input"), output = this.figure.querySelector("output"), pace = this.figure.querySelector(".speed");
      const last = Math.max(this.source.frames - 1, 1), speeds = [1, 0.5, 0.25, 2];
      let playing = false, before = 0, speed = 0, visible = true;
      const show = () => {
        slider.value = 1000 * this.at / last;
        output.textContent = `${(this.source.start + this.at * this.source.step).toFixed(2)} s`;
        this.draw();
      };
      const tick = (now) => {
        if (!playing) return;
        if (visible) {
          this.at = (this.at + Math.min(now - before, 200) / 1000 / this.source.step * speeds[speed]) % last;
          show();
        }
        before = now;
        requestAnimationFrame(tick);
      };
      const play = (on) => {
        playing = on;
        button.textContent = on ? "❚❚" : "▶";
        if (on) { before = performance.now(); requestAnimationFrame(tick); }
      };
      button.addEventListener("click", () => play(!playing));
      slider.addEventListener("input", () => { play(false); this.at = slider.value / 1000 * last; show(); });
      pace.addEventListener("click", () => { speed = (speed + 1) % speeds.length; pace.textContent = ["1×", "½×", "¼×", "2×"][speed]; });
      new IntersectionObserver((entries) => { visible = entries[entries.length - 1].isIntersecting; }).observe(this.canvas);
      addEventListener("beforeprint", () => play(false));
      show();
      if (this.source.frames > 1 && !matchMedia("(prefers-reduced-motion: reduce)").matches) play(true);
    }
  }

  document.querySelectorAll(".scene").forEach((figure) => new Scene(figure));

  // -- efforts: read values off the curves, zoom in time -------------------------------------------------------------

  const FINE = 4000, TALL = 1000;
  const pointsOf = (path) => {
    const xs = [], ys = [];
    let x = 0, y = 0;
    const numbers = path.getAttribute("d").match(/-?\d+/g) || [];
    for (let i = 0; i + 1 < numbers.length; i += 2) { x += +numbers[i]; y += +numbers[i + 1]; xs.push(x); ys.push(y); }
    return { xs, ys };
  };
  const steps = (low, high, count) => {
    const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough)), step = power * [1, 2, 5, 10].reduce((a, b) => (Math.abs(Math.log(b * power / rough)) < Math.abs(Math.log(a * power / rough)) ? b : a)), marks = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) marks.push(k * step);
    return [marks, Math.max(0, -Math.floor(Math.log10(step) + 1e-9))];
  };
  const short = (x) => (x === 0 ? "0" : Math.abs(x) >= 1e-3 && Math.abs(x) < 1e5 ? String(+x.toPrecision(4)) : x.toExponential(2)).replace("-", "−");

  class Effort {
    constructor(svg, group) {
      Object.assign(this, { svg, group });
      [this.start, this.end] = svg.dataset.x.split(" ").map(Number);
      [this.low, this.high] = svg.dataset.y.split(" ").map(Number);
      this.large = +svg.dataset.r;
      this.windows = [...svg.querySelectorAll(".window")];
      const area = this.windows[0];
      this.left = +area.getAttribute("x");
      this.width = +area.getAttribute("width");
      this.cursor = svg.querySelector(".cursor");
      this.note = svg.querySelector(".note");
      this.usual = this.note.textContent;
      this.range = [0, FINE];
      this.foot = svg.querySelector(".x-ticks");
      this.level = this.foot.firstChild ? this.foot.firstChild.getAttribute("y") : 0;
      svg.addEventListener("pointermove", (e) => this.point(e));
      svg.addEventListener("pointerleave", () => this.leave());
      svg.addEventListener("pointerdown", (e) => { if (e.button === 0) { this.from = this.place(e); this.svg.setPointerCapture(e.pointerId); } });
      svg.addEventListener("pointerup", (e) => this.release(e));
      svg.addEventListener("dblclick", () => group.forEach((chart) => chart.show(0, FINE)));
      svg.addEventListener("keydown", (e) => this.key(e));
      svg.addEventListener("blur", () => this.leave());
    }

    place(e) {
      const spot = new DOMPoint(e.clientX, e.clientY).matrixTransform(this.svg.getScreenCTM().inverse());
      return clamp((spot.x - this.left) / this.width, 0, 1);
    }

    fine(share) { return this.range[0] + share * (this.range[1] - this.range[0]); }

    // Left and right move the cursor, + and - zoom about it, Escape shows everything.
    key(e) {
      const step = { ArrowLeft: -0.01, ArrowRight: 0.01 }[e.key], zoom = { "+": 0.5, "-": 2 }[e.key];
      if (step === undefined && zoom === undefined && e.key !== "Escape") return;
      e.preventDefault();
      if (e.key === "Escape") return this.group.forEach((chart) => chart.show(0, FINE));
      this.share = clamp((this.share ?? 0.5) + (step || 0), 0, 1);
      if (zoom) {
        const width = clamp(zoom * (this.range[1] - this.range[0]), 40, FINE), from = clamp(this.fine(this.share) - width / 2, 0, FINE - width);
        this.group.forEach((chart) => chart.show(from, from + width));
      }
      this.read(this.share);
    }

    point(e) { this.read(this.place(e)); }

    read(share) {
      this.curves ||= [...this.svg.querySelectorAll(".window path:not(.excluded)")].map(pointsOf);
      const wanted = this.fine(share), { xs } = this.curves[0];
      let a = 0, b = xs.length - 1;
      while (b - a > 1) { const m = (a + b) >> 1; xs[m] < wanted ? (a = m) : (b = m); }
      const k = wanted - xs[a] < xs[b] - wanted ? a : b;
      const value = (curve, low, high) => high - (high - low) * this.curves[curve].ys[k] / TALL;
      const time = this.start + (this.end - this.start) * xs[k] / FINE, x = this.left + this.width * (xs[k] - this.range[0]) / (this.range[1] - this.range[0]);
      this.cursor.setAttribute("x1", x); this.cursor.setAttribute("x2", x); this.cursor.style.opacity = 0.5;
      this.note.textContent = `${time.toFixed(3)} s   ${short(value(0, this.low, this.high))} / ${short(value(1, this.low, this.high))}   Δ ${short(value(2, -this.large, this.large))} ${this.svg.dataset.unit}`;
      if (this.from !== undefined) {
        this.brush ||= make("rect", { class: "brush", y: this.windows[0].getAttribute("y"), height: +this.windows[1].getAttribute("y") + +this.windows[1].getAttribute("height") - +this.windows[0].getAttribute("y") }, this.svg);
        this.brush.setAttribute("x", this.left + this.width * Math.min(this.from, share));
        this.brush.setAttribute("width", this.width * Math.abs(share - this.from));
      }
    }

    leave() { this.cursor.style.opacity = 0; this.note.textContent = this.usual; }

    release(e) {
      const from = this.from, to = this.place(e);
      this.from = undefined;
      if (this.brush) { this.brush.remove(); this.brush = null; }
      if (from === undefined || Math.abs(to - from) < 0.02) return;
      const range = [this.fine(Math.min(from, to)), this.fine(Math.max(from, to))];
      if (range[1] - range[0] >= 40) this.group.forEach((chart) => chart.show(...range));
    }

    show(from, to) {
      this.range = [from, to];
      this.windows.forEach((w) => w.setAttribute("viewBox", `${from} 0 ${to - from} ${TALL}`));
      const at = (fine) => this.start + (this.end - this.start) * fine / FINE, [low, high] = [at(from), at(to)];
      this.foot.replaceChildren();
      const [marks, digits] = steps(low, high, 6);
      marks.forEach((mark, k) => make("text", { class: "tick middle", x: this.left + this.width * (mark - low) / (high - low), y: this.level }, this.foot).textContent = mark.toFixed(digits) + (k === marks.length - 1 ? " s" : ""));
    }
  }

  document.querySelectorAll(".efforts").forEach((grid) => {
    const group = [];
    grid.querySelectorAll(".effort").forEach((svg) => group.push(new Effort(svg, group)));
  });

  // -- correlation ---------------------------------------------------------------------------------------------------

  const matrix = document.querySelector(".correlation"), readout = document.querySelector(".readout");
  if (matrix) {
    const [margin, cell, count] = matrix.dataset.cell.split(" ").map(Number), usual = readout.textContent;
    let at = [0, 0];
    const tell = (i, j) => { readout.textContent = j >= 0 && j <= i && i < count ? `${data.correlation.names[i]} and ${data.correlation.names[j]}: ${(data.correlation.rows[i][j] / 1000).toFixed(3).replace("-", "−")}` : usual; };
    matrix.addEventListener("pointermove", (e) => {
      const spot = new DOMPoint(e.clientX, e.clientY).matrixTransform(matrix.getScreenCTM().inverse());
      tell(Math.floor(spot.y / cell), Math.floor((spot.x - margin) / cell));
    });
    matrix.setAttribute("tabindex", "0");
    matrix.addEventListener("keydown", (e) => {
      const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[e.key];
      if (!step) return;
      const i = clamp(at[0] + step[0], 0, count - 1);
      at = [i, clamp(at[1] + step[1], 0, i)];
      e.preventDefault();
      tell(...at);
    });
    matrix.addEventListener("pointerleave", () => { readout.textContent = usual; });
  }
})();
