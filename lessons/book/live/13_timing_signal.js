"use strict";
// The clock of lesson 13: a sentence, a distance, and how alike two positions are.

(() => {
  const HANDS = 256, SLOWEST = 10000, SHOWN = 8;     // d = 512, the paper's
  const live = document.querySelector("#live");
  live.innerHTML = `<p>Eight of the ${HANDS} hands, at the first word (grey) and at the one Δ words later
    (orange). Below, each word of the sentence: the darker, the more its position is like the first.</p>
    <label>words <input type="range" name="words" min="2" max="100" value="24"></label>
    <label>Δ <input type="range" name="distance" min="1" max="23" value="3"></label>
    <p id="said" aria-live="polite"></p>
    <svg viewBox="0 0 640 250" role="img" aria-label="Hands, words and a curve"></svg>`;
  const field = name => live.querySelector(`[name=${name}]`);
  const timescale = k => SLOWEST ** (k / (HANDS - 1));

  // the mean of cos(Δ/t_k): all that is left of the product of two signals
  function cosine(distance) {
    let sum = 0;
    for (let k = 0; k < HANDS; k++) sum += Math.cos(distance / timescale(k));
    return sum / HANDS;
  }

  function hand(x, angle, colour) {
    return `<line x1="${x}" y1="40" x2="${x + 30 * Math.sin(angle)}" y2="${40 - 30 * Math.cos(angle)}"
      stroke="${colour}" stroke-width="2.5"/>`;
  }

  function dials(distance) {
    let drawn = "";
    for (let n = 0; n < SHOWN; n++) {
      const x = 40 + 80 * n, t = timescale(n * (HANDS - 1) / (SHOWN - 1));
      drawn += `<circle cx="${x}" cy="40" r="34" fill="none" stroke="gray"/>${hand(x, 0, "gray")}
        ${hand(x, distance / t, "#d9601a")}
        <text x="${x}" y="90" text-anchor="middle">t = ${Math.round(t).toLocaleString("en")}</text>`;
    }
    return drawn;
  }

  function sentence(words, distance) {
    let drawn = "";
    for (let p = 0; p < words; p++) {
      const width = 620 / words, edge = p === distance ? "#d9601a" : "gray";
      drawn += `<rect x="${10 + p * width}" y="104" width="${0.85 * width}" height="22" fill="#1f5fa8"
        fill-opacity="${Math.max(0, cosine(p))}" stroke="${edge}"/>`;
    }
    return drawn;
  }

  function curve(words, distance) {
    const x = p => 40 + 590 * Math.log(p) / Math.log(Math.max(2, words - 1));
    const y = value => 235 - 90 * value;
    let points = "";
    for (let p = 1; p < words; p++) points += `${x(p)},${y(cosine(p))} `;
    return `<path d="M40 140V235H635" fill="none" stroke="gray"/>
      <polyline points="${points}" fill="none" stroke="#1f5fa8" stroke-width="2"/>
      <circle cx="${x(distance)}" cy="${y(cosine(distance))}" r="5" fill="#d9601a"/>
      <text x="2" y="150">1</text><text x="2" y="238">0</text>
      <text x="635" y="248" text-anchor="end">Δ from 1 to ${words - 1}, logarithmic</text>`;
  }

  function draw() {
    const words = Number(field("words").value);
    field("distance").max = words - 1;
    const distance = Number(field("distance").value);
    const short = 1 - (0.577 + Math.log(distance)) / Math.log(SLOWEST);
    live.querySelector("svg").innerHTML =
      dials(distance) + sentence(words, distance) + curve(words, distance);
    live.querySelector("#said").textContent = `${words} words, Δ = ${distance}: cosine `
      + `${cosine(distance).toFixed(4)}; the short form says ${short.toFixed(3)}`;
  }

  live.addEventListener("input", draw);
  draw();
})();
