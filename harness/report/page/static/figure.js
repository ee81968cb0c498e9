"use strict";

// A figure: its legend, its panels, the point under the pointer or chosen by the arrow keys, and the
// numbers behind it as a table.

const NEAR = 24; // pixels within which the pointer chooses a point
const ZOOM = 2;

class Figure {
  constructor(place, data) {
    Object.assign(this, data);
    const title = place.dataset.title;
    this.output = element("output", { class: "status" });
    const panels = element("div", { class: "panels" });
    if (this.ordered) panels.classList.add("ordered");
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
    return element("ul", { class: this.ordered ? "legend ordered" : "legend" }, ...items);
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
    this.ends = { x: [panel.x.low, panel.x.high], y: [panel.y.low, panel.y.high], zoomed: false };
    this.level = 1;
    this.plot.addEventListener("keydown", (event) => this.key(event));
    this.plot.addEventListener("pointermove", (event) => this.choose(this.nearest(event)));
    this.plot.addEventListener("click", (event) => {
      this.choose(this.nearest(event));
      this.showTrial();
    });
    new ResizeObserver(() => this.draw()).observe(this.plot);
  }

  draw() {
    const width = Math.max(240, Math.floor(this.plot.clientWidth));
    if (width === this.width) return;
    this.width = width;
    const { svg, points, x, y } = drawPanel(this.panel, this.ends, width);
    Object.assign(this, { svg, points, scales: { x, y } });
    this.plot.replaceChildren(svg);
  }

  // Zooms about the chosen point, or the middle; beyond the ends of the axes there is nothing.
  zoom(factor) {
    this.level = Math.max(1, this.level * factor);
    this.ends.zoomed = this.level > 1;
    for (const axis of ["x", "y"]) {
      const { place, value } = this.scales[axis];
      const [from, to] = this.ends[axis].map(place);
      const middle = this.points[this.current]?.[axis] ?? (from + to) / 2;
      const half = (to - from) / 2 / factor;
      const { low, high } = this.panel[axis];
      this.ends[axis] = this.ends.zoomed ? [middle - half, middle + half].map(value) : [low, high];
    }
    this.width = 0;
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
    else if (event.key === "Enter") this.showTrial();
  }

  showTrial() {
    if (this.current >= 0) this.figure.showTrial(this.points[this.current].row);
  }

  // The point nearest to the pointer, if it is near.
  nearest(event) {
    const box = this.svg.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    let [best, least] = [-1, NEAR ** 2];
    this.points.forEach((point, number) => {
      const distance = (point.x - x) ** 2 + (point.y - y) ** 2;
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
