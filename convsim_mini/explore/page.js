"use strict";

const byId = id => document.getElementById(id);
const shown = byId("shown"), links = [...document.querySelectorAll("nav a")];
const fields = [...document.querySelectorAll("input, textarea")];
let panel, piece = 0, asked = 0, timer;    // piece: whose attention is shown

// Make an element. Texts become text nodes, never HTML.
function make(tag, attributes, ...content) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...content);
  return element;
}

// most: the number with the fullest colour
function makeCell(tag, cell, most) {
  const {content = cell, note = "", piece: chosen, pressed} = Object(cell);
  const isNumber = typeof content === "number";
  let inside = isNumber ? (Math.round(100 * content) / 100 || 0).toFixed(2) : content;    // no −0.00
  if (pressed !== undefined) {
    inside = make("button", {"aria-pressed": pressed}, inside);
    inside.addEventListener("click", () => { piece = chosen; ask(); });
  }
  const made = make(tag, {class: isNumber ? content < 0 ? "number minus" : "number" : ""}, inside,
                    make("small", {}, note));
  made.style.setProperty("--share", `${80 * Math.abs(content) / most}%`);
  return made;
}

function makeTable([caption, head, rows]) {
  const contents = rows.flat().map(cell => cell.content ?? cell);
  const most = Math.max(...contents.filter(Number.isFinite).map(Math.abs));
  const row = (tag, cells) => make("tr", {}, ...cells.map((cell, k) => makeCell(
    k === 0 && typeof cell === "string" ? "th" : tag, cell, most)));
  return make("div", {class: "wide"}, make("table", {}, make("caption", {}, caption),
    make("thead", {}, row("th", head)), make("tbody", {}, ...rows.map(cells => row("td", cells)))));
}

// Ask the open panel, and show its answer unless a newer question has been asked by then.
async function ask() {
  clearTimeout(timer);
  const mine = ++asked, typed = Object.fromEntries(fields.map(({id, value}) => [id, value]));
  const body = JSON.stringify({piece, ...typed});
  const answer = await fetch(panel, {method: "POST", body}).then(response => response.json())
    .catch(() => ({status: "No answer. Is the command still running?"}));
  if (mine === asked) show(answer);
}

// A button that has the focus keeps it.
function show({about = "", status, tables = []}) {
  const focus = [...shown.querySelectorAll("button")].indexOf(document.activeElement);
  byId("about").textContent = about;
  byId("status").textContent = status;
  shown.replaceChildren(...tables.map(makeTable));
  shown.querySelectorAll("button")[focus]?.focus();
}

function open() {
  const link = links.find(({hash}) => hash === location.hash) ?? links[0];
  panel = link.hash.slice(1);
  for (const other of links) other.setAttribute("aria-current", other === link);
  for (const field of fields) field.parentNode.hidden = !link.dataset.fields.includes(field.id);
  show({status: "Working. The first answer of a panel may take a minute."});
  ask();
}

document.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(ask, 150);
});
addEventListener("hashchange", open);
open();
