"use strict";

// Without this script a browser shows the titles itself, but late and small.
const tip = document.createElement("div");
tip.className = "tip";
tip.hidden = true;
document.body.append(tip);

for (const title of document.querySelectorAll("circle > title")) {
  title.parentNode.dataset.text = title.textContent;
  title.remove();
}

document.addEventListener("pointerover", event => {
  const text = event.target.dataset?.text;
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  const { right, bottom, top } = event.target.getBoundingClientRect();
  const below = bottom + tip.offsetHeight + 8 < innerHeight;
  tip.style.left = `${Math.max(8, Math.min(right, innerWidth - tip.offsetWidth - 24))}px`;
  tip.style.top = `${below ? bottom + 4 : top - tip.offsetHeight - 4}px`;
});

for (const search of document.querySelectorAll("input[type=search]")) {
  const label = search.parentNode;
  const circles = [...label.parentNode.querySelectorAll("circle")];
  label.hidden = false;
  search.addEventListener("input", () => {
    const typed = search.value.trim().toLowerCase();
    const found = circles.filter(circle => circle.dataset.text.includes(typed));
    for (const circle of circles) circle.classList.add("faded");
    for (const circle of found) {
      circle.classList.remove("faded");
      if (typed) circle.parentNode.append(circle);    // above the others
    }
    label.querySelector("output").textContent =
      typed ? `${found.length} of ${circles.length} sentences` : "";
  });
}
