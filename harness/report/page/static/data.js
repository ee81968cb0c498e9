"use strict";

// Loads the files of the folder `data`. A page from disk may not fetch JSON, so each of them is a
// script that calls `harnessReport.receive(name, content)`.
const harnessReport = (() => {
  const waiting = new Map();
  const loaded = new Map();

  function receive(name, content) {
    waiting.get(name)(content);
    waiting.delete(name);
  }

  // A promise of the content of a file; each file is read once.
  function load(name) {
    if (!loaded.has(name)) {
      loaded.set(
        name,
        new Promise((resolve, reject) => {
          const script = document.createElement("script");
          waiting.set(name, resolve);
          script.src = `data/${name}.js`;
          script.addEventListener("load", () => script.remove());
          script.addEventListener("error", () => reject(new Error(`${script.src} is missing`)));
          document.head.append(script);
        }),
      );
    }
    return loaded.get(name);
  }

  return { receive, load };
})();
