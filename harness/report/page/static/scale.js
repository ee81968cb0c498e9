"use strict";

// Scales: where a value stands on an axis, and which values the axis names.

const TICKS = 5;
const LOG_FROM = 100; // values that differ by such a factor stand on a logarithmic axis

// A scale for values between the pixels `from` and `to`. Values that are not all numbers stand at
// equal distances in the order in which they first occur.
function scaleOf(values, from, to) {
  const known = values.filter((value) => value !== null);
  if (!known.every((value) => typeof value === "number")) return bandScale(known, from, to);
  const [low, high] = known.reduce(
    ([least, most], value) => [Math.min(least, value), Math.max(most, value)],
    [Infinity, -Infinity],
  );
  return low > 0 && high / low >= LOG_FROM ? logScale(low, high, from, to) : linearScale(low, high, from, to);
}

function bandScale(values, from, to) {
  const names = [...new Set(values.map(valueText))];
  const width = (to - from) / names.length;
  const place = (value) => from + width * (names.indexOf(valueText(value)) + 0.5);
  return { place, ticks: names.map((name) => ({ place: place(name), text: name })) };
}

function linearScale(low, high, from, to) {
  const margin = (high - low) * 0.05 || Math.abs(low) * 0.05 || 1;
  // An axis does not go on where the quantity ends: no rate is below 0, and no score above 100.
  const least = low >= 0 ? Math.max(low - margin, 0) : low - margin;
  const end = low < 0 && high <= 0 ? 0 : high <= 100 ? 100 : Infinity;
  const most = Math.min(high + margin, end);
  const place = (value) => from + ((value - least) / (most - least)) * (to - from);
  const step = niceStep((most - least) / TICKS);
  const ticks = [];
  for (let count = Math.ceil(least / step); count * step <= most; count += 1) {
    ticks.push({ place: place(count * step), text: valueText(count * step) });
  }
  return { place, ticks };
}

function logScale(low, high, from, to) {
  const [least, most] = [Math.log10(low) - 0.1, Math.log10(high) + 0.1];
  const place = (value) => from + ((Math.log10(value) - least) / (most - least)) * (to - from);
  const step = Math.max(1, Math.round((most - least) / TICKS));
  const ticks = [];
  for (let power = Math.ceil(least); power <= most; power += step) {
    ticks.push({ place: place(10 ** power), text: valueText(10 ** power) });
  }
  return { place, ticks };
}

// 1, 2 or 5 times a power of ten, at least as large as `rough`.
function niceStep(rough) {
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999) * power;
}

// A value as an axis and a table show it.
function valueText(value) {
  if (value === null) return "";
  if (typeof value !== "number") return typeof value === "string" ? value : JSON.stringify(value);
  return String(Number(value.toPrecision(5)));
}
