"use strict";
// Marks of what was read, search over headings, folds that open in print.

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

addEventListener("beforeprint", () => {
  for (const fold of document.querySelectorAll("details:not(.solution)")) fold.open = true;
});
