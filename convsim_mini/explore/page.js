"use strict";

const byId = id => document.getElementById(id);
const shown = byId("shown"), sections = [...document.querySelectorAll("section")];
const state = {pair: [0, 1], word: 0};    // what is looked at
let panel, asked = 0, timer;

// An element. Texts become text nodes, never HTML.
function make(tag, content, properties = {}) {
  const element = document.createElement(tag);
  element.append(...[content].flat());
  return Object.assign(element, properties);
}

// An element of SVG. Its name appears under the pointer.
function makeSvg(tag, name, attributes) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(document.createElementNS(element.namespaceURI, "title"));
  element.firstChild.append(name);
  return element;
}

// A cell of a table: a text, a number that is coloured, or one of these that can be pressed.
function makeCell(tag, cell, most) {
  const {content, small, ask: change, pressed} = cell?.content === undefined ? {content: cell} : cell;
  const isNumber = typeof content === "number";
  let inside = isNumber ? content.toFixed(2).replace("-0.00", "0.00").replace("-", "−") : content;
  if (change) {
    inside = make("button", inside, {onclick() { Object.assign(state, change); ask(); }});
    inside.setAttribute("aria-pressed", pressed);
    if (!pressed && "word" in change) inside.onpointerenter = inside.onclick;
  }
  const made = make(tag, small ? [inside, make("small", small)] : inside);
  made.classList.toggle("number", isNumber);
  made.classList.toggle("minus", content < 0);
  made.style.setProperty("--share", `${isNumber ? 80 * Math.min(1, Math.abs(content) / most) : 0}%`);
  return made;
}

function makeTable({caption, head, rows, most}) {
  return make("div", make("table", [
    make("caption", caption),
    make("thead", make("tr", head.map(cell => makeCell("th", cell)))),
    make("tbody", rows.map(row => make("tr", row.map(cell => makeCell("td", cell, most))))),
  ]), {className: "wide"});
}

function makeMap({points, yours}) {
  const at = place => [20 + 940 * place[0], 20 + 560 * place[1]];
  const map = makeSvg("svg", "Map of sentences", {viewBox: "0 0 980 600", role: "img"});
  for (const {text, place, share, faded} of points) {
    const [cx, cy] = at(place);
    const circle = makeSvg("circle", text, {cx, cy, class: faded ? "faded" : ""});
    circle.style.setProperty("--share", `${100 * share}%`);
    map.append(circle);
  }
  map.append(makeSvg("path", "your sentence", {d: `M${at(yours)}m-14 0h28m-14-14v28`}));
  return map;
}

const makeImage = svg => make("img", [], {
  src: `data:image/svg+xml,${encodeURIComponent(svg)}`, alt: "Curves of the table's numbers"});

// Ask for the open panel, and show its answer unless something newer was asked meanwhile.
async function ask() {
  const mine = ++asked;
  clearTimeout(timer);
  const question = {...state};
  for (const field of document.querySelectorAll("input, textarea")) question[field.id] = field.value;
  let answer = {status: "No answer: does the command still run?"};
  try {
    answer = await (await fetch(panel, {method: "POST", body: JSON.stringify(question)})).json();
  } catch {}    // the status says so
  if (mine === asked) show(answer);
}

// A button that had the focus keeps it.
function show({status, map, images = [], tables = [], again}) {
  const focus = [...shown.querySelectorAll("button")].indexOf(document.activeElement);
  byId("status").textContent = status;
  shown.replaceChildren(...map ? [makeMap(map)] : [], ...images.map(makeImage),
                        ...tables.map(makeTable));
  shown.querySelectorAll("button")[focus]?.focus();
  if (again) askIn(3000);
}

function askIn(milliseconds) {
  clearTimeout(timer);
  timer = setTimeout(ask, milliseconds);
}

function open() {
  const section = sections.find(({id}) => `#${id}` === location.hash) ?? sections[0];
  panel = section.id;
  for (const other of sections) other.hidden = other !== section;
  for (const link of document.querySelectorAll("nav a")) {
    link.toggleAttribute("aria-current", link.hash === `#${panel}`);
  }
  byId("yours").hidden = ["compare", "learning"].includes(panel);
  show({status: "Working. A panel's first answer may take a minute."});
  ask();
}

for (const {id, firstElementChild} of sections) {
  document.querySelector("nav").append(make("a", firstElementChild.textContent, {href: `#${id}`}));
}
document.addEventListener("input", () => askIn(150));
addEventListener("hashchange", open);
open();
