"use strict";

for (const search of document.querySelectorAll("input[type=search]")) {
  const part = search.closest("div");
  const circles = [...part.querySelectorAll("circle")];
  search.addEventListener("input", () => {
    const typed = search.value.trim().toLowerCase();
    const found = circles.filter(circle => circle.textContent.includes(typed));
    for (const circle of circles) circle.classList.add("faded");
    for (const circle of found) {
      circle.classList.remove("faded");
      if (typed) circle.parentNode.append(circle);    // above the others
    }
    part.querySelector("output").textContent =
      typed ? `${found.length} of ${circles.length} sentences` : "";
  });
}
