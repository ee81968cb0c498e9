"use strict";

// A table with sorting, a filter and pages. Only the rows of one page are in the document.

const PAGE_ROWS = 50;
const PRINTED_ROWS = 1000; // so many rows are on paper
const SHORT = 20; // a text of so many characters stays on one line

class Grid {
  constructor(place, name, data) {
    this.place = place;
    this.name = name;
    this.data = data;
    this.words = [];
    this.sorted = { column: null, ascending: false };
    this.first = 0;
    this.pageRows = PAGE_ROWS;
    this.status = element("p", { class: "status", role: "status" });
    this.head = element("thead");
    this.pages = element("div", { class: "pages" });
    this.table = element("table", {}, element("caption", {}, data.caption), this.head);
    if (data.quoted) this.table.classList.add("with-published", "quoted");
    place.replaceChildren(
      this.controls(),
      scrollable(this.table, data.title || `Table ${name}`),
      element("div", { class: "below" }, this.status, this.pages),
    );
    this.drawHead();
    this.draw();
    this.showScores();
    window.addEventListener("beforeprint", () => this.showRows(PRINTED_ROWS));
    window.addEventListener("afterprint", () => this.showRows(PAGE_ROWS));
  }

  // Says that a table is wider than its place; where it is narrow, the scores come first.
  showScores() {
    const region = this.table.parentElement;
    if (region.scrollWidth <= region.clientWidth) return;
    region.before(element("p", { class: "scrolls" }, "This table scrolls sideways."));
    const score = this.table.querySelector("tbody .score");
    const name = score && score.closest("tr").querySelector('th[scope="row"]');
    if (name && window.matchMedia("(max-width: 40rem)").matches) {
      region.scrollLeft += score.getBoundingClientRect().left - name.getBoundingClientRect().right;
    }
  }

  showRows(count) {
    this.pageRows = count;
    this.redraw();
  }

  // The filter, and what else the reader may choose.
  controls() {
    const rows = this.data.sections.flatMap((section) => section.rows);
    const made = element("div", { class: "controls" });
    if (rows.length > 1 && this.data.sortable) {
      const search = element("input", { type: "search", autocomplete: "off" });
      search.addEventListener("input", () => {
        this.words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
        this.redraw();
      });
      made.append(element("label", {}, "Filter ", search));
    }
    if (this.data.compared) {
      const box = element("input", { type: "checkbox" });
      box.checked = this.data.quoted;
      box.addEventListener("change", () => this.table.classList.toggle("with-published", box.checked));
      made.append(element("label", {}, box, " published values"));
    }
    return made;
  }

  redraw() {
    this.first = 0;
    this.draw();
  }

  drawHead() {
    const cells = this.data.columns.map((heading, column) => {
      const cell = element("th", { scope: "col", class: this.kind(column) });
      if (!heading) return element("td");
      if (!this.data.sortable) {
        cell.append(heading);
        return cell;
      }
      const own = this.sorted.column === column;
      cell.setAttribute("aria-sort", own ? (this.sorted.ascending ? "ascending" : "descending") : "none");
      cell.append(button(heading, { "data-column": column }, () => this.sortBy(column)));
      return cell;
    });
    this.head.replaceChildren(element("tr", {}, ...cells));
  }

  // Numbers start with the largest, texts with A; a second click turns round, a third one ends it.
  sortBy(column) {
    const first = column < this.data.text_columns;
    if (this.sorted.column !== column) this.sorted = { column, ascending: first };
    else if (this.sorted.ascending === first) this.sorted = { column, ascending: !first };
    else this.sorted = { column: null, ascending: false };
    this.drawHead();
    this.redraw();
    this.head.querySelector(`[data-column="${column}"]`).focus();
  }

  shown(row) {
    const text = row.slice(0, this.data.text_columns).map(textOf).join(" ").toLowerCase();
    return this.words.every((word) => text.includes(word));
  }

  // [heading of the section, row] of all rows that are shown, in order.
  get ordered() {
    const { column, ascending } = this.sorted;
    return this.data.sections.flatMap(({ name, rows }) => {
      const found = rows.filter((row) => this.shown(row));
      if (column !== null) found.sort((one, other) => compare(one[column], other[column], ascending));
      return found.map((row) => [name, row]);
    });
  }

  draw() {
    const rows = this.ordered;
    const page = rows.slice(this.first, this.first + this.pageRows);
    const bodies = [];
    let heading = null;
    for (const [name, row] of page) {
      if (name !== heading) {
        heading = name;
        bodies.push(element("tbody"));
        if (name) bodies.at(-1).append(this.sectionRow(name));
      }
      bodies.at(-1).append(this.row(row));
    }
    this.table.querySelectorAll("tbody").forEach((body) => body.remove());
    this.table.append(...bodies);
    const total = this.data.sections.reduce((sum, section) => sum + section.rows.length, 0);
    const shown = rows.length === total ? `${total}` : `${rows.length} of ${total}`;
    const last = Math.min(this.first + this.pageRows, rows.length);
    const part = rows.length > this.pageRows ? `, ${this.first + 1} to ${last} shown` : "";
    this.status.textContent = `${shown} ${total === 1 ? "row" : "rows"}${part}`;
    this.drawPages(rows.length);
  }

  drawPages(rows) {
    if (rows <= this.pageRows) {
      this.pages.replaceChildren();
      return;
    }
    const go = (first) => () => {
      this.first = first;
      this.draw();
    };
    const before = button("Previous", {}, go(Math.max(0, this.first - this.pageRows)));
    const after = button("Next", {}, go(this.first + this.pageRows));
    before.disabled = this.first === 0;
    after.disabled = this.first + this.pageRows >= rows;
    this.pages.replaceChildren(before, after);
  }

  sectionRow(name) {
    const span = this.data.columns.length;
    return element("tr", {}, element("th", { scope: "rowgroup", colspan: span, class: "text" }, name));
  }

  row(cells) {
    const header = cells.findIndex((cell, column) => column < this.data.text_columns && textOf(cell));
    return element(
      "tr",
      {},
      ...cells.map((cell, column) => {
        const short = textOf(cell).length <= SHORT ? " short" : "";
        const attributes = { class: this.kind(column) + short };
        if (column === header) return element("th", { ...attributes, scope: "row" }, ...this.content(cell, column));
        return element("td", attributes, ...this.content(cell, column));
      }),
    );
  }

  // What stands in a cell: text, or a button that shows a score or a trial.
  content(cell, column) {
    if (typeof cell === "string") return [cell];
    const parts = [];
    if (cell.score) {
      const name = cell.best ? "score best" : "score";
      const shows = () => showScore(cell, this.data.columns[column], this.data.show_options);
      parts.push(button(cell.text, { class: name, "data-cell": cell.score.address }, shows));
    } else if (Number.isInteger(cell.trial)) {
      parts.push(button(cell.text, { class: "score" }, () => showTrial(cell.trial)));
    } else {
      parts.push(cell.text);
    }
    for (const name of ["published", "delta"]) {
      if (cell[name]) parts.push(element("span", { class: name }, cell[name]));
    }
    return parts;
  }

  kind(column) {
    return column < this.data.text_columns ? "text" : "number";
  }
}

function textOf(cell) {
  return typeof cell === "string" ? cell : cell.text;
}

// The number by which a cell is sorted: ours, or else the published one.
function numberOf(cell) {
  return cell.value ?? cell.publishedValue;
}

// Empty cells come last in both orders.
function compare(one, other, ascending) {
  const sign = ascending ? 1 : -1;
  const [first, second] = [numberOf(one), numberOf(other)];
  if (first !== undefined && second !== undefined) return sign * (first - second);
  const empty = [one, other].map((cell) => !textOf(cell) && numberOf(cell) === undefined);
  if (empty[0] || empty[1]) return empty[0] - empty[1];
  return sign * textOf(one).localeCompare(textOf(other), "en", { numeric: true });
}
