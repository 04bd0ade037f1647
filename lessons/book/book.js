"use strict";
// Marks of what was read, search over headings, predictions that open in print.

document.documentElement.classList.add("scripts");

for (const box of document.querySelectorAll("input[data-lesson]")) {
  const key = "convsim lesson " + box.dataset.lesson;
  box.checked = localStorage.getItem(key) === "read";
  box.addEventListener("change", () => {
    if (box.checked) localStorage.setItem(key, "read");
    else localStorage.removeItem(key);
  });
}

const search = document.querySelector("#search");
if (search) search.addEventListener("input", () => {
  const words = search.value.toLowerCase().split(/\s+/);
  search.closest("details").open = true;
  for (const item of document.querySelectorAll("#headings li"))
    item.hidden = !words.every(word => item.textContent.toLowerCase().includes(word));
});

for (const figure of document.querySelectorAll(".figure"))    // on a narrow screen a tap enlarges it
  figure.addEventListener("click", event => {
    if (!matchMedia("(max-width: 600px)").matches) return;
    event.preventDefault();
    figure.classList.toggle("large");
  });

const here = document.querySelector(".machine .here");    // on a narrow screen the picture scrolls
if (here) document.querySelector("figure").scrollLeft =
  here.getBoundingClientRect().left - document.documentElement.clientWidth / 2;

const live = document.querySelector("#live");    // each slider tells its value
if (live) {
  const sliders = [...live.querySelectorAll("input[type=range]")].map(
    slider => [slider, slider.parentNode.appendChild(document.createElement("output"))]);
  const tell = () => sliders.forEach(([slider, value]) => { value.textContent = " " + slider.value; });
  live.addEventListener("input", tell);
  tell();
}

addEventListener("beforeprint", () => {
  for (const fold of document.querySelectorAll("details.told")) fold.open = true;
});
