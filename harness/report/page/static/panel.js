"use strict";

// Draws a panel of a figure as SVG: its axes, and its marks with the looks of page.css.

const LOOKS = 7; // colours and dashes in page.css, markers below
const TICKS = 5;
const MOST_DRAWN = 5000; // marks of a panel, and points of a mark; the table has all numbers
const INCH = 110; // pixels on the screen for an inch in print
const LETTER = 7; // pixels
const MARKERS = ["M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0", "M-4-4h8v8h-8z", "M0-5L5 4H-5z", "M0-5L5 0L0 5L-5 0z",
  "M-5-2h3v-3h4v3h3v4h-3v3h-4v-3h-3z", "M0 5L5-4H-5z", "M-5 0L3-5V5z"];
const STAR = "M0-8L2-2.5L8-2.5L3 1L5 7L0 3.5L-5 7L-3 1L-8-2.5L-2-2.5z";

function lookClass(look) {
  return Number.isInteger(look) ? `look-${look % LOOKS}` : look;
}

// With more looks than colours, the same colour has another marker.
function markerShape(look) {
  if (!Number.isInteger(look)) return look === "best" ? STAR : MARKERS[0];
  return MARKERS[(look + Math.floor(look / LOOKS)) % LOOKS];
}

// The SVG of a panel between `ends` of its axes, its scales, and the places of the points that have
// a row. `ends` are those of the axes, or nearer ones where the reader has zoomed.
function drawPanel(panel, ends, width) {
  const rotated = panel.x.ticks && textWidth(panel.x.ticks) > width - 80;
  const longest = Math.max(0, ...namedValues(panel.y, ends.y).map(([, text]) => text.length));
  const edge = {
    top: 8,
    right: panel.marks.some((mark) => mark.texts && mark.side === "right") ? 36 : 14,
    bottom: rotated ? 64 : 44,
    left: Math.min(longest * LETTER + (panel.y.label ? 28 : 14), width * 0.45),
  };
  const height = Math.round(panel.height * INCH) + edge.bottom;
  const frame = { x: edge.left, y: edge.top, width: width - edge.left - edge.right, height: height - edge.top - edge.bottom };
  const bottom = frame.y + frame.height;
  if (panel.equal && !ends.zoomed) ends = equalEnds(ends, frame);
  const x = scaleOf(panel.x, ends.x, frame.x, frame.x + frame.width);
  const y = scaleOf(panel.y, ends.y, bottom, frame.y);
  const parts = [];
  for (const [at, text] of y.ticks) {
    parts.push(svgElement("line", { class: "rule", x1: frame.x, x2: frame.x + frame.width, y1: at, y2: at }));
    parts.push(svgElement("text", { x: frame.x - 6, y: at, class: "tick end" }, text));
  }
  parts.push(svgElement("line", { class: "axis", x1: frame.x, x2: frame.x + frame.width, y1: bottom, y2: bottom }));
  for (const [at, text] of panel.x.ticks ? x.ticks : thinned(x.ticks, frame.width)) {
    const turned = rotated ? { transform: `rotate(-25 ${at} ${bottom + 14})` } : {};
    const kind = rotated ? "tick end" : "tick middle";
    parts.push(svgElement("text", { x: at, y: bottom + 16, class: kind, ...turned }, text));
  }
  const middle = frame.y + frame.height / 2;
  const turned = `translate(9 ${middle}) rotate(-90)`;
  parts.push(svgElement("text", { x: frame.x + frame.width / 2, y: height - 8, class: "middle" }, panel.x.label));
  parts.push(svgElement("text", { transform: turned, class: "middle" }, panel.y.label));
  // What a reader has zoomed out of sight is cut; a marker at the end of an axis is not.
  const overflow = ends.zoomed ? "hidden" : "visible";
  const inside = svgElement("svg", { ...frame, viewBox: `${frame.x} ${frame.y} ${frame.width} ${frame.height}`, overflow });
  const points = [];
  for (const mark of panel.marks.slice(-MOST_DRAWN)) {
    inside.append(...drawMark(mark, x, y, frame));
    mark.rows.slice(0, MOST_DRAWN).forEach((row, at) => {
      points.push({ row, x: x.place(mark.x[at]), y: y.place(mark.y[at]) });
    });
  }
  // The numbers are in the table below, so a screen reader needs no more than the name of the plot.
  const attributes = { viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" };
  return { svg: svgElement("svg", attributes, ...parts, inside), points, x, y };
}

// The ends of axes on which a unit is equally long.
function equalEnds(ends, frame) {
  const unit = Math.max((ends.x[1] - ends.x[0]) / frame.width, (ends.y[1] - ends.y[0]) / frame.height);
  const around = ([low, high], pixels) => [-1, 1].map((sign) => (low + high + sign * unit * pixels) / 2);
  return { x: around(ends.x, frame.width), y: around(ends.y, frame.height) };
}

function drawMark(mark, x, y, frame) {
  const look = lookClass(mark.look);
  const across = mark.x.map(x.place);
  const up = mark.y.map(y.place);
  const places = across.map((value, at) => `${value.toFixed(1)},${(up[at] ?? 0).toFixed(1)}`);
  const right = frame.x + frame.width;
  switch (mark.kind) {
    case "line":
      return [svgElement("polyline", { class: `line ${look}`, points: places.join(" ") })];
    case "step": {
      const steps = across.map((value, at) => (at ? `H${value}V${up[at]}` : `M${value} ${up[at]}`));
      return [svgElement("path", { class: `line ${look}`, d: steps.join("") })];
    }
    case "area": {
      const base = y.place(mark.base || 0);
      const outline = `${across[0]},${base} ${places.join(" ")} ${across.at(-1)},${base}`;
      return [svgElement("polygon", { class: `area ${look}`, points: outline })];
    }
    case "vertical":
      return across.map((at) =>
        svgElement("line", { class: `line dotted ${look}`, x1: at, x2: at, y1: frame.y, y2: frame.y + frame.height }),
      );
    case "horizontal":
      return up.map((at) => svgElement("line", { class: `line thin ${look}`, x1: frame.x, x2: right, y1: at, y2: at }));
    case "text":
      return across.map((at, row) => {
        const shift = mark.side === "left" ? -5 : 5;
        const kind = mark.side === "left" ? "halo end" : "halo";
        return svgElement("text", { class: kind, x: at + shift, y: up[row] }, mark.texts[row]);
      });
    default:
      return across.slice(0, MOST_DRAWN).flatMap((at, row) => drawPoint(mark, look, at, up[row], y.place, mark.y[row], mark.spread[row]));
  }
}

function drawPoint(mark, look, across, up, place, value, spread) {
  const kind = `marker ${look}${mark.hollow ? " hollow" : ""}`;
  const marker = svgElement("path", { class: kind, d: markerShape(mark.look), transform: `translate(${across} ${up})` });
  if (!spread) return [marker];
  const ends = { x1: across, x2: across, y1: place(value - spread), y2: place(value + spread) };
  return [svgElement("line", { class: `line spread ${look}`, ...ends }), marker];
}

// Where values stand between the pixels `from` and `to`, and which values the axis names.
function scaleOf(axis, [low, high], from, to) {
  const [scaled, back] = axis.log ? [Math.log10, (number) => 10 ** number] : [Number, Number];
  const unit = (to - from) / (scaled(high) - scaled(low));
  const place = (value) => from + (scaled(value) - scaled(low)) * unit;
  return {
    place,
    value: (pixel) => back(scaled(low) + (pixel - from) / unit),
    ticks: namedValues(axis, [low, high]).map(([value, text]) => [place(value), text]),
  };
}

// [value, text] of what an axis names.
function namedValues(axis, [low, high]) {
  const named = axis.ticks || roundValues(low, high, axis.log).map((value) => [value, valueText(value)]);
  return named.filter(([value]) => value >= low && value <= high);
}

// Powers of ten, with 2 and 5 times them where these are few; or multiples of 1, 2 or 5 times one.
function roundValues(low, high, log) {
  const values = [];
  if (log && high > 4 * low) {
    const factors = high < 40 * low ? [1, 2, 5] : [1];
    for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power += 1) {
      values.push(...factors.map((factor) => factor * 10 ** power));
    }
    return values;
  }
  const rough = (high - low) / TICKS;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999) * power;
  for (let count = Math.ceil(low / step); count * step <= high; count += 1) values.push(count * step);
  return values;
}

function textWidth(ticks) {
  return ticks.reduce((sum, [, text]) => sum + text.length * LETTER + 8, 0);
}

// The ticks whose texts do not run into each other.
function thinned(ticks, width) {
  const longest = Math.max(0, ...ticks.map(([, text]) => text.length)) * LETTER + 8;
  const every = Math.ceil((ticks.length * longest) / width);
  return ticks.filter((_, place) => place % every === 0);
}

// A value as an axis and a table show it.
function valueText(value) {
  if (value === null) return "";
  if (typeof value !== "number") return typeof value === "string" ? value : JSON.stringify(value);
  const short = Number(value.toPrecision(5));
  return short !== 0 && Math.abs(short) < 1e-4 ? short.toExponential() : String(short);
}
