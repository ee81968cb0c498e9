"use strict";

// Shows the trials behind a score, or a single trial, in the dialog.

const TRIALS_IN_A_FILE = 200; // as in content.py

async function trialDetails(number) {
  const trials = await harnessReport.load(`trials-${Math.floor(number / TRIALS_IN_A_FILE)}`);
  return trials[number % TRIALS_IN_A_FILE];
}

async function showTrial(number) {
  const trial = await trialDetails(number);
  showDialog(trial.label, [
    ...reasonOf(trial),
    ...commandOf([trial]),
    ...configurationOf([trial]),
    ...aboutTrial(trial),
  ]);
}

// Show a score: its trials with their seeds, the configuration and the commands.
async function showScore(cell, column, showOptions) {
  const { row, address, trials: numbers, evaluations, values, verdict } = cell.score;
  const found = await Promise.all(numbers.map(trialDetails));
  // The trial of a model that was only evaluated is its evaluation.
  const further = evaluations.filter((number) => !numbers.includes(number));
  const measured = await Promise.all(further.map(trialDetails));
  const order = [...found.keys()].sort((one, other) => drawn(found[one], found[other]));
  const trials = order.map((place) => found[place]);
  const subsets = trials.some((trial) => trial.subset); // 0 is the whole, or the only one
  const headings = ["seed", ...(subsets ? ["subset"] : []), "score", "key", "status", "device"];
  const rows = order.map((place) => {
    const { seed, subset, key, status, device } = found[place];
    const draw = subsets ? [String(seed), String(subset)] : [String(seed)];
    return [...draw, (values[place] ?? NaN).toFixed(4), key.slice(0, 10), status, device];
  });
  const lines = [element("p", { class: "large" }, cell.text)];
  if (cell.published) {
    lines.push(element("p", {}, `Published: ${cell.published}. Difference: ${cell.delta || "not compared"}. ${verdict}`));
  }
  if (address) lines.push(element("p", {}, element("code", {}, `harness show ${address}${showOptions}`)));
  showDialog(`${row}: ${column}`, [
    ...lines,
    textTable("Trials", headings, rows),
    ...commandOf([...trials, ...measured]),
    ...configurationOf(trials),
    ...trials.map((trial) =>
      element("details", {}, element("summary", {}, `All about ${trial.label}`), ...aboutTrial(trial)),
    ),
  ]);
}

// The order of trials: by label subset, then by seed.
function drawn(one, other) {
  return one.subset - other.subset || one.seed - other.seed;
}

// The values that all of the trials share; they differ in no more than the subset.
function configurationOf(trials) {
  const [first, ...others] = trials;
  const shared = first.configuration.filter(([name, value]) =>
    others.every((trial) => trial.configuration.some((pair) => pair[0] === name && pair[1] === value)),
  );
  return shared.length ? [textTable("Configuration", [], shared)] : [];
}

function commandOf(trials) {
  const commands = trials.map((trial) => trial.command).join("\n");
  return [element("h3", {}, "Command"), scrollable(element("pre", {}, commands), "Commands")];
}

function reasonOf(trial) {
  if (!trial.reason) return [];
  return [element("h3", {}, "Reason and log"), scrollable(element("pre", {}, trial.reason), "Log")];
}

function aboutTrial(trial) {
  const parts = [];
  if (trial.scores.length) {
    const scores = trial.scores.map(([split, name, value]) => [name, split, String(value)]);
    parts.push(textTable("Scores", ["metric", "split", "score"], scores));
  }
  parts.push(textTable("Record", [], trial.facts));
  return parts;
}

function showDialog(title, content) {
  const dialog = document.getElementById("details");
  const place = document.getElementById("details-content");
  place.replaceChildren(element("h2", { id: "details-title" }, title), ...content);
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
}
