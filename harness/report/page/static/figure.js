"use strict";

// A chart with its controls: views, a list of the series, the point under the pointer or chosen by
// the arrow keys, and the numbers behind it as a table.

const NEAR = 24; // pixels within which the pointer chooses a point
const MOST_POINTS = 5000; // drawn at once; the table has all numbers

class Figure {
  constructor(place, data) {
    this.data = new ChartData(data);
    this.view = this.data.view ? this.data.distinct(this.data.view)[0] : null;
    this.current = -1;
    this.plot = element("div", {
      class: "plot",
      role: "group",
      tabindex: "0",
      "aria-label": `${place.dataset.title}: the arrow keys go through the points`,
    });
    this.mark = svgElement("circle", { class: "current", r: 8 });
    this.output = element("output", { class: "status" });
    this.legend = element("ul", { class: "legend" });
    place.replaceChildren(this.controls(), this.plot, this.output, this.legend, this.numbers(place));
    this.plot.addEventListener("pointermove", (event) => this.point(event));
    this.plot.addEventListener("click", (event) => {
      this.point(event);
      this.showTrial();
    });
    this.plot.addEventListener("keydown", (event) => this.key(event));
    this.width = 0;
    this.draw();
    new ResizeObserver(() => this.draw()).observe(this.plot);
  }

  controls() {
    const made = element("div", { class: "controls" });
    if (this.data.view) {
      const views = this.data.distinct(this.data.view);
      const list = choice(views, (view) => {
        this.view = view;
        this.width = 0;
        this.draw();
      });
      if (views.length > 1) made.append(labelled(this.data.view, list));
    }
    return made;
  }

  draw() {
    const width = Math.max(280, Math.floor(this.plot.clientWidth) || 640);
    if (width === this.width) return;
    this.width = width;
    const rows = this.data.rowsOf(this.view);
    const shown = rows.slice(0, MOST_POINTS);
    const { svg, points } = drawChart(this.data, shown, width);
    this.svg = svg;
    this.points = points;
    this.current = -1;
    this.plot.replaceChildren(svg);
    this.output.textContent =
      shown.length < rows.length ? `${shown.length} of ${rows.length} points are drawn.` : "";
    this.drawLegend(shown);
  }

  drawLegend(rows) {
    if (!this.data.series) return;
    const series = new Map(rows.map((row) => [this.data.value(this.data.series, row), row]));
    const named = series.size > LOOKS && this.data.mark === "line" ? NAMED_LINES : 2 * LOOKS;
    const items = [...series].slice(0, named).map(([name, row]) => {
      const look = lookOf(this.data, row, series.size);
      const sample = svgElement("svg", { width: 30, height: 12, "aria-hidden": "true" });
      if (this.data.mark === "line") {
        sample.append(svgElement("polyline", { class: `line ${look}`, points: "0,6 30,6" }));
      } else {
        const marker = markerOf(this.data, row);
        sample.append(svgElement("path", { class: `marker ${look}`, d: marker, transform: "translate(15 6)" }));
      }
      return element("li", {}, sample, ` ${name}`);
    });
    if (series.size > named) items.push(element("li", {}, `and ${series.size - named} more`));
    this.legend.replaceChildren(...items);
  }

  // The point nearest to the pointer, if it is near.
  point(event) {
    const box = this.svg.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    let [best, least] = [-1, NEAR ** 2];
    this.points.forEach((point, at) => {
      const distance = (point.x - x) ** 2 + (point.y - y) ** 2;
      if (distance < least) [best, least] = [at, distance];
    });
    this.choose(best);
  }

  key(event) {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (step) {
      const count = this.points.length;
      this.choose((Math.max(this.current, step > 0 ? -1 : 0) + step + count) % count);
      event.preventDefault();
    } else if (event.key === "Enter") this.showTrial();
  }

  choose(at) {
    this.current = at;
    this.mark.remove();
    if (at < 0) return;
    const { row, x, y } = this.points[at];
    setAttributes(this.mark, { cx: x, cy: y });
    this.svg.append(this.mark);
    const more = this.data.trial(row) === null ? "" : " (Enter or a click shows the trial)";
    this.output.textContent = this.data.describe(row) + more;
  }

  showTrial() {
    if (this.current < 0) return;
    const trial = this.data.trial(this.points[this.current].row);
    if (trial !== null) showTrial(trial);
  }

  // The numbers as a table, which is made when it is opened.
  numbers(place) {
    const inside = element("div", { class: "grid" });
    const made = element("details", {}, element("summary", {}, "Numbers"), inside);
    made.addEventListener("toggle", () => {
      if (!inside.hasChildNodes()) new Grid(inside, place.dataset.chart, this.data.grid(place.dataset.title));
    });
    return made;
  }
}

// The columns of a chart, read row by row.
class ChartData {
  constructor(data) {
    Object.assign(this, data);
    this.names = Object.keys(data.columns);
    const [first] = Object.values(data.columns);
    this.rows = (first.codes || first.values).length;
  }

  value(name, row) {
    const column = this.columns[name];
    return column.codes ? column.values[column.codes[row]] : column.values[row];
  }

  code(name, row) {
    return this.columns[name].codes[row];
  }

  distinct(name) {
    return this.columns[name].values;
  }

  label(name) {
    return this.labels[name] || name;
  }

  trial(row) {
    const found = this.trials[row];
    return Number.isInteger(found) ? found : null;
  }

  // The numbers of the rows of a view that have both coordinates.
  rowsOf(view) {
    const needed = [this.x, this.y].filter(Boolean);
    return [...Array(this.rows).keys()].filter(
      (row) =>
        (!this.view || this.value(this.view, row) === view) &&
        needed.every((name) => this.value(name, row) !== null),
    );
  }

  describe(row) {
    return this.names.map((name) => `${name}: ${valueText(this.value(name, row))}`).join("; ");
  }

  grid(title) {
    const cell = (name, row) => {
      const value = this.value(name, row);
      return typeof value === "number" ? { text: valueText(value), value } : valueText(value);
    };
    const isText = (name) => Boolean(this.columns[name].codes);
    const names = [...this.names.filter(isText), ...this.names.filter((name) => !isText(name))];
    const rows = [...Array(this.rows).keys()].map((row) => names.map((name) => cell(name, row)));
    return {
      title: "",
      caption: `The numbers of: ${title}`,
      columns: names.map((name) => this.label(name)),
      textColumns: names.filter(isText).length,
      sections: [{ name: "", rows }],
      sortable: true,
    };
  }
}
