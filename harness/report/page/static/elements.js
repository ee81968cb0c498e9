"use strict";

// Makes elements. All content is set as text, so nothing in it can be markup.

// An element with attributes and children; a child is an element or text.
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  setAttributes(made, attributes);
  made.append(...children);
  return made;
}

function svgElement(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  setAttributes(made, attributes);
  made.append(...children);
  return made;
}

function setAttributes(made, attributes) {
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
}

function button(text, attributes, onClick) {
  const made = element("button", { type: "button", ...attributes }, text);
  made.addEventListener("click", onClick);
  return made;
}

// A small table of texts. Its first column has the headers of the rows.
function textTable(caption, headings, rows) {
  const head = headings.map((heading) => element("th", { scope: "col" }, heading));
  const body = rows.map(([first, ...others]) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, first),
      ...others.map((cell) => element("td", {}, cell)),
    ),
  );
  const table = element("table", {}, element("caption", {}, caption));
  if (headings.length) table.append(element("thead", {}, element("tr", {}, ...head)));
  table.append(element("tbody", {}, ...body));
  return scrollable(table, caption);
}

// A region that scrolls sideways, by keyboard too.
function scrollable(content, name) {
  return element("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": name }, content);
}
