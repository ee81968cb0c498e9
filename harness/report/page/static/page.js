"use strict";

// Fills the page: tables first, then figures, one after the other, so that it can be used meanwhile.
(async () => {
  for (const place of document.querySelectorAll("[data-grid]")) {
    const name = place.dataset.grid;
    new Grid(place, name, await harnessReport.load(name));
  }
  for (const place of document.querySelectorAll("[data-figure]")) {
    new Figure(place, await harnessReport.load(place.dataset.figure));
  }
  document.documentElement.dataset.ready = "true"; // everything is drawn
})();
