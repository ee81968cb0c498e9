"use strict";

// A figure: its legend, its panels, the point under the pointer or chosen by the arrow keys, and the
// numbers behind it as a table.

const NEAR = 24; // pixels within which the pointer chooses a point
const LEAST_DRAG = 8; // pixels; a shorter drag is a click
const ZOOM = 2;

class Figure {
  constructor(place, data) {
    Object.assign(this, data);
    const title = place.dataset.title;
    this.output = element("output", { class: "status" });
    const panels = element("div", { class: "panels" });
    place.replaceChildren(panels, this.output, this.legendList(), this.numbers(place));
    if (this.panels.some(({ marks }) => Math.max(marks.length, ...marks.map((mark) => mark.x.length)) > MOST_DRAWN)) {
      this.output.textContent = `At most ${MOST_DRAWN} marks of a panel are drawn.`;
    }
    for (const panel of this.panels) panels.append(new Panel(this, panel, title).place);
  }

  legendList() {
    const kinds = (look) => this.panels.flatMap((panel) => panel.marks.filter((mark) => mark.look === look));
    const items = this.legend.map((name, look) => {
      const sample = svgElement("svg", { width: 30, height: 12, "aria-hidden": "true" });
      const drawn = new Set(kinds(look).map((mark) => mark.kind));
      if (drawn.has("line")) {
        sample.append(svgElement("polyline", { class: `line ${lookClass(look)}`, points: "0,6 30,6" }));
      }
      if (drawn.has("points")) {
        const at = { d: markerShape(look), transform: "translate(15 6)" };
        sample.append(svgElement("path", { class: `marker ${lookClass(look)}`, ...at }));
      }
      return element("li", {}, sample, ` ${name}`);
    });
    return element("ul", { class: "legend" }, ...items);
  }

  value(name, row) {
    const { codes, values } = this.columns[name];
    return codes ? values[codes[row]] : values[row];
  }

  // Says what is known of a row.
  tell(row) {
    const texts = Object.keys(this.columns).map((name) => [name, valueText(this.value(name, row))]);
    const more = Number.isInteger(this.trials[row]) ? " (Enter or a click shows the trial)" : "";
    this.output.textContent = texts.filter(([, text]) => text).map((pair) => pair.join(": ")).join("; ") + more;
  }

  showTrial(row) {
    if (Number.isInteger(this.trials[row])) showTrial(this.trials[row]);
  }

  // The numbers as a table, which is made when it is opened.
  numbers(place) {
    const inside = element("div", { class: "grid" });
    const made = element("details", {}, element("summary", {}, "Numbers"), inside);
    made.addEventListener("toggle", () => {
      if (!inside.hasChildNodes()) new Grid(inside, place.dataset.figure, this.grid(place.dataset.title));
    });
    return made;
  }

  grid(title) {
    const isText = (name) => Boolean(this.columns[name].codes);
    const all = Object.keys(this.columns);
    const names = [...all.filter(isText), ...all.filter((name) => !isText(name))];
    const cell = (value) => (typeof value === "number" ? { text: valueText(value), value } : valueText(value));
    const rows = [...Array(this.rows).keys()].map((row) => names.map((name) => cell(this.value(name, row))));
    return {
      title: "",
      caption: `The numbers of: ${title}`,
      columns: names,
      text_columns: names.filter(isText).length,
      sections: [{ name: "", rows }],
      sortable: true,
    };
  }
}

class Panel {
  constructor(figure, panel, title) {
    this.figure = figure;
    this.panel = panel;
    this.current = -1;
    const name = [title, panel.title || panel.x.label].filter(Boolean).join(", ");
    this.plot = element("div", {
      class: "plot",
      role: "group",
      tabindex: "0",
      "aria-label": `${name}: the arrow keys go through the points, + and - zoom`,
    });
    const zoom = [["+", "Zoom in", ZOOM], ["−", "Zoom out", 1 / ZOOM]].map(([sign, label, factor]) =>
      button(sign, { "aria-label": `${label}: ${name}` }, () => this.zoom(factor)),
    );
    const head = element("div", { class: "panel-head" }, element("span", {}, panel.title), ...zoom);
    this.place = element("div", { class: "panel" }, head, this.plot);
    this.mark = svgElement("circle", { class: "current", r: 8 });
    this.reset();
    this.plot.addEventListener("keydown", (event) => this.key(event));
    this.plot.addEventListener("pointerdown", (event) => this.begin(event));
    this.plot.addEventListener("pointermove", (event) => this.move(event));
    this.plot.addEventListener("pointerup", (event) => this.end(event));
    new ResizeObserver(() => this.draw()).observe(this.plot);
  }

  reset() {
    const { x, y } = this.panel;
    this.ends = { x: [x.low, x.high], y: [y.low, y.high], zoomed: false };
    this.width = 0;
  }

  draw() {
    const width = Math.max(240, Math.floor(this.plot.clientWidth));
    if (width === this.width) return;
    this.width = width;
    const { svg, points, x, y } = drawPanel(this.panel, this.ends, width);
    Object.assign(this, { svg, points, scales: { x, y } });
    this.plot.replaceChildren(svg);
  }

  // Shows a part of the panel: of each axis the values between two pixels.
  show(pixels) {
    const between = (axis) => pixels[axis].map(this.scales[axis].value).sort((one, other) => one - other);
    this.ends = { x: between("x"), y: between("y"), zoomed: true };
    this.width = 0;
    this.draw();
    this.choose(this.current);
  }

  // Zooms about the chosen point, or the middle; beyond the ends of the axes there is nothing.
  zoom(factor) {
    const part = (axis) => {
      const ends = this.ends[axis].map(this.scales[axis].place);
      const half = (ends[1] - ends[0]) / 2 / factor;
      const middle = this.points[this.current]?.[axis] ?? (ends[0] + ends[1]) / 2;
      return [middle - half, middle + half];
    };
    const before = this.scales;
    this.show({ x: part("x"), y: part("y") });
    const whole = ["x", "y"].every((axis) => {
      const width = (ends) => Math.abs(before[axis].place(ends[1]) - before[axis].place(ends[0]));
      return width(this.ends[axis]) >= 0.999 * width([this.panel[axis].low, this.panel[axis].high]);
    });
    if (!whole) return;
    this.reset();
    this.draw();
    this.choose(this.current);
  }

  key(event) {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (step && this.points.length) {
      const count = this.points.length;
      this.choose((Math.max(this.current, step > 0 ? -1 : 0) + step + count) % count);
      event.preventDefault();
    } else if (event.key === "+") this.zoom(ZOOM);
    else if (event.key === "-") this.zoom(1 / ZOOM);
    else if (event.key === "Enter" && this.current >= 0) this.figure.showTrial(this.points[this.current].row);
  }

  at(event) {
    const box = this.svg.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  // A mouse that is drawn over a part of the panel shows this part; a finger scrolls the page.
  begin(event) {
    if (event.pointerType === "mouse") this.start = this.at(event);
  }

  move(event) {
    const at = this.at(event);
    if (this.start && event.buttons) {
      this.frame ??= svgElement("rect", { class: "current" });
      const [x, y] = [Math.min(at.x, this.start.x), Math.min(at.y, this.start.y)];
      const size = { width: Math.abs(at.x - this.start.x), height: Math.abs(at.y - this.start.y) };
      setAttributes(this.frame, { x, y, ...size });
      this.svg.append(this.frame);
    } else this.choose(this.nearest(at));
  }

  end(event) {
    const at = this.at(event);
    const start = this.start || at;
    this.start = null;
    this.frame?.remove();
    if (Math.abs(at.x - start.x) > LEAST_DRAG && Math.abs(at.y - start.y) > LEAST_DRAG) {
      this.current = -1;
      this.show({ x: [start.x, at.x], y: [start.y, at.y] });
      return;
    }
    this.choose(this.nearest(at));
    if (this.current >= 0) this.figure.showTrial(this.points[this.current].row);
  }

  // The point nearest to a place, if it is near.
  nearest(at) {
    let [best, least] = [-1, NEAR ** 2];
    this.points.forEach((point, number) => {
      const distance = (point.x - at.x) ** 2 + (point.y - at.y) ** 2;
      if (distance < least) [best, least] = [number, distance];
    });
    return best;
  }

  choose(number) {
    this.current = number;
    this.mark.remove();
    if (number < 0) return;
    const { row, x, y } = this.points[number];
    setAttributes(this.mark, { cx: x, cy: y });
    this.svg.append(this.mark);
    this.figure.tell(row);
  }
}
