"use strict";

// Draws points, lines, bars and parallel coordinates as SVG.

const LOOKS = 7; // colours, dashes and markers in page.css and below
const NAMED_LINES = 5; // of more lines than LOOKS, so many have a look of their own
const HEIGHT = 320;
const MOST_LABELS = 8; // an axis of parallel coordinates with so many values has a label for each
const EDGE = { top: 12, right: 16, bottom: 44, left: 64 };
const MARKERS = ["M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0", "M-4-4h8v8h-8z", "M0-5L5 4H-5z", "M0-5L5 0L0 5L-5 0z",
  "M-5-2h3v-3h4v3h3v4h-3v3h-4v-3h-3z", "M0 5L5-4H-5z", "M-5 0L3-5V5z"];

// The drawing of some rows of a chart. `points` are the places of the rows that have one.
function drawChart(chart, rows, width) {
  const points = [];
  const parts = { line: drawLines, point: drawPoints, bar: drawBars, parallel: drawParallel }[chart.mark](
    chart, rows, width, points,
  );
  const height = chart.mark === "bar" ? barsHeight(rows) : HEIGHT;
  // The numbers are in the table below, so a screen reader needs no more than the name of the plot.
  const attributes = { viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" };
  return { svg: svgElement("svg", attributes, ...parts), points };
}

function lookOf(chart, row, count) {
  const number = chart.series ? chart.code(chart.series, row) : 0;
  return chart.mark === "line" && count > LOOKS && number >= NAMED_LINES ? "pale" : `look-${number % LOOKS}`;
}

// With more series than colours, the same colour has another marker.
function markerOf(chart, row) {
  const number = chart.series ? chart.code(chart.series, row) : 0;
  return MARKERS[(number + Math.floor(number / LOOKS)) % LOOKS];
}

function axes(chart, rows, width) {
  const column = (name) => rows.map((row) => chart.value(name, row));
  const x = scaleOf(column(chart.x), EDGE.left, width - EDGE.right);
  const spread = rows.map((row) => (chart.error && chart.value(chart.error, row)) || 0);
  const heights = column(chart.y);
  const ends = chart.error
    ? heights.flatMap((value, place) => [value - spread[place], value + spread[place]])
    : heights;
  const y = scaleOf(ends, HEIGHT - EDGE.bottom, EDGE.top);
  const bottom = HEIGHT - EDGE.bottom;
  const lines = y.ticks.flatMap((tick) => [
    svgElement("line", { class: "rule", x1: EDGE.left, x2: width - EDGE.right, y1: tick.place, y2: tick.place }),
    svgElement("text", { x: EDGE.left - 6, y: tick.place, class: "tick end" }, tick.text),
  ]);
  lines.push(svgElement("line", { class: "axis", x1: EDGE.left, x2: width - EDGE.right, y1: bottom, y2: bottom }));
  for (const tick of thinned(x.ticks, width)) {
    lines.push(svgElement("text", { x: tick.place, y: bottom + 18, class: "tick middle" }, tick.text));
  }
  const names = [
    svgElement("text", { x: (EDGE.left + width) / 2, y: HEIGHT - 10, class: "middle" }, chart.label(chart.x)),
    svgElement(
      "text",
      { transform: `translate(14 ${HEIGHT / 2 - 16}) rotate(-90)`, class: "middle" },
      chart.label(chart.y),
    ),
  ];
  return { x, y, parts: [...lines, ...names] };
}

// The ticks whose texts do not run into each other.
function thinned(ticks, width) {
  const longest = Math.max(...ticks.map((tick) => tick.text.length)) * 7 + 8;
  const every = Math.ceil((ticks.length * longest) / width);
  return ticks.filter((_, place) => place % every === 0);
}

function drawLines(chart, rows, width, points) {
  const { x, y, parts } = axes(chart, rows, width);
  const bySeries = Map.groupBy(rows, (row) => chart.value(chart.series, row));
  // The best trial is drawn last, above the others.
  for (const own of [...bySeries.values()].reverse()) {
    const places = own.map((row) => [x.place(chart.value(chart.x, row)), y.place(chart.value(chart.y, row))]);
    const look = lookOf(chart, own[0], bySeries.size);
    parts.push(svgElement("polyline", { class: `line ${look}`, points: places.join(" ") }));
    if (own.length === 1) {
      const at = `translate(${places[0].join(" ")})`;
      parts.push(svgElement("path", { class: `marker ${look}`, d: MARKERS[0], transform: at }));
    }
    own.forEach((row, at) => points.push({ row, x: places[at][0], y: places[at][1] }));
  }
  return parts;
}

function drawPoints(chart, rows, width, points) {
  const { x, y, parts } = axes(chart, rows, width);
  if (chart.front) parts.push(frontLine(chart, rows, x, y));
  for (const row of rows) {
    const [across, value] = [x.place(chart.value(chart.x, row)), chart.value(chart.y, row)];
    const spread = chart.error ? chart.value(chart.error, row) : null;
    const look = lookOf(chart, row, 0);
    if (spread) {
      const ends = { x1: across, x2: across, y1: y.place(value - spread), y2: y.place(value + spread) };
      parts.push(svgElement("line", { class: `line ${look}`, ...ends }));
    }
    const marker = markerOf(chart, row);
    const at = `translate(${across} ${y.place(value)})`;
    parts.push(svgElement("path", { class: `marker ${look}`, d: marker, transform: at }));
    points.push({ row, x: across, y: y.place(value) });
  }
  return parts;
}

// The steps through the rows that no cheaper one beats; the cheapest comes first.
function frontLine(chart, rows, x, y) {
  let path = "";
  for (const row of rows.filter((each) => chart.value(chart.front, each))) {
    const [across, up] = [x.place(chart.value(chart.x, row)), y.place(chart.value(chart.y, row))];
    path += path ? `H${across}V${up}` : `M${across} ${up}`;
  }
  return svgElement("path", { class: "line pale", d: path });
}

const BAR = 26;

function barsHeight(rows) {
  return rows.length * BAR + 8;
}

function drawBars(chart, rows, width, points) {
  const left = Math.min(200, width * 0.45);
  return rows.flatMap((row, at) => {
    const [value, top] = [chart.value(chart.x, row), at * BAR + 4];
    const length = Math.max(1, value * (width - left - 60)); // shares, from 0 to 1
    points.push({ row, x: left + length, y: top + BAR / 2 });
    return [
      svgElement("text", { x: left - 6, y: top + BAR / 2, class: "tick end" }, chart.value(chart.y, row)),
      svgElement("rect", { class: "bar", x: left, y: top + 3, width: length, height: BAR - 6 }),
      svgElement("text", { x: left + length + 6, y: top + BAR / 2, class: "tick" }, value.toFixed(2)),
    ];
  });
}

// A line for each row through its values; the first column is the score.
function drawParallel(chart, rows, width, points) {
  const names = chart.names;
  const scales = names.map((name) =>
    scaleOf(rows.map((row) => chart.value(name, row)), HEIGHT - EDGE.bottom, EDGE.top + 8),
  );
  const across = scaleOf(names, EDGE.left / 2, width);
  const best = rows.reduce((one, row) => (chart.value(names[0], row) > chart.value(names[0], one) ? row : one));
  const lines = rows.map((row) => {
    const places = names
      .map((name, at) => [chart.value(name, row), across.place(name), scales[at]])
      .filter(([value]) => value !== null)
      .map(([value, place, scale]) => [place, scale.place(value)]);
    points.push({ row, x: places[0][0], y: places[0][1] });
    const look = row === best ? "look-1" : "pale";
    return svgElement("polyline", { class: `line ${look}`, points: places.join(" ") });
  });
  // A search has few values of most hyperparameters, and each of them has its label.
  const labels = names.map((name, at) => {
    const values = [...new Set(rows.map((row) => chart.value(name, row)).filter((value) => value !== null))];
    if (at === 0 || values.length > MOST_LABELS) return scales[at].ticks;
    return values.map((value) => ({ place: scales[at].place(value), text: valueText(value) }));
  });
  const parts = names.flatMap((name, at) => {
    const x = across.place(name);
    return [
      svgElement("line", { class: "axis", x1: x, x2: x, y1: EDGE.top, y2: HEIGHT - EDGE.bottom }),
      ...labels[at].map((tick) => svgElement("text", { x: x - 5, y: tick.place, class: "tick end" }, tick.text)),
      svgElement("text", { x, y: HEIGHT - (at % 2 ? 10 : 26), class: "middle" }, name),
    ];
  });
  return [...lines, ...parts];
}
