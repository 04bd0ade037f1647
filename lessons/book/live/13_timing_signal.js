"use strict";
// The clock of lesson 13 under a sentence of the reader's: how alike two positions are, hand by hand.

(() => {
  const HANDS = 256, SLOWEST = 10000, SHOWN = 8;     // d = 512, the paper's
  const live = document.querySelector("#live");
  live.innerHTML = `<p>Type a sentence, and click on a word. Its hands are grey, those of the word Δ later
    orange. Each word is the bluer, the more its position is like that of the chosen one.</p>
    <label>sentence <input name="sentence" size="36" maxlength="120"
      value="the dog that bit the man ran away and hid behind the house"></label>
    <label>Δ <input type="range" name="distance" min="1" max="12" value="3"></label>
    <p id="said" aria-live="polite"></p><p id="words"></p>
    <div class="panels">${[["0 0 340 190", "Eight hands"], ["0 0 340 190", "All hands"],
      ["0 0 340 190", "Cosine and distance"]].map(([box, label]) =>
      `<svg viewBox="${box}" role="img" aria-label="${label}"></svg>`).join("")}</div>`;
  const field = name => live.querySelector(`[name=${name}]`), panels = live.querySelectorAll("svg");
  const timescale = k => SLOWEST ** (k / (HANDS - 1));
  const hands = [...Array(HANDS).keys()].map(timescale);
  let chosen = 0;

  // the mean of cos(Δ/t_k): all that is left of the product of two signals
  const cosine = distance => hands.reduce((sum, t) => sum + Math.cos(distance / t), 0) / HANDS;
  const short = distance => 1 - (0.577 + Math.log(distance)) / Math.log(SLOWEST);
  const line = (f, most) => [...Array(most).keys()].map(n => f(n + 1)).join(" ");

  function hand(x, y, angle, colour) {
    return `<line x1="${x}" y1="${y}" x2="${x + 30 * Math.sin(angle)}"
      y2="${y - 30 * Math.cos(angle)}" stroke="${colour}" stroke-width="2.5"/>`;
  }

  function dials(distance) {
    return [...Array(SHOWN).keys()].map(n => {
      const x = 42 + 85 * (n % 4), y = 38 + 92 * Math.floor(n / 4), t = 2 ** n;
      return `<circle cx="${x}" cy="${y}" r="34" fill="none" stroke="gray"/>
        ${hand(x, y, chosen / t, "gray")}${hand(x, y, (chosen + distance) / t, "#d9601a")}
        <text x="${x}" y="${y + 50}" text-anchor="middle">t = ${t}</text>`;
    }).join("");
  }

  function frame(low, across) {
    const y = value => 165 - 150 * (value - low) / (1 - low);
    return [y, `<path d="M32 10V${y(low)}H335M32 ${y(0)}H335" fill="none" stroke="gray"/>
      <text x="12" y="20">1</text><text x="12" y="${y(0) + 4}">0</text>
      <text x="335" y="184" text-anchor="end">${across}</text>`];
  }

  function everyHand(distance) {
    const [y, axes] = frame(-1, "all hands, the fastest first");
    const points = line(k => `${32 + 300 * k / HANDS},${y(Math.cos(distance / hands[k - 1]))}`, HANDS);
    return `${axes}<text x="38" y="20">cos(Δ/t)</text>
      <polyline points="${points}" fill="none" stroke="#d9601a"/>`;
  }

  function curve(distance, most) {
    const [y, axes] = frame(0, `Δ from 1 to ${most}, logarithmic`);
    const x = p => 35 + 295 * Math.log(p) / Math.log(Math.max(2, most));
    return `${axes}<text x="200" y="20">cosine of two positions</text>
      <polyline points="${line(p => `${x(p)},${y(short(p))}`, most)}" fill="none" stroke="gray"
        stroke-dasharray="4"/>
      <polyline points="${line(p => `${x(p)},${y(cosine(p))}`, most)}" fill="none" stroke="#1f5fa8"
        stroke-width="2"/>
      <circle cx="${x(distance)}" cy="${y(cosine(distance))}" r="5" fill="#d9601a"/>`;
  }

  function draw() {
    const words = field("sentence").value.split(/\s+/).filter(Boolean);
    chosen = Math.min(chosen, Math.max(0, words.length - 1));
    const distance = Number(field("distance").value);
    live.querySelector("#words").replaceChildren(...words.map((word, p) => {
      const button = document.createElement("button");
      button.textContent = word;
      button.style.background = `rgb(31 95 168 / ${65 * Math.max(0, cosine(p - chosen)) ** 2}%)`;
      if (p === chosen + distance) button.style.outline = "2px solid #d9601a";
      button.addEventListener("click", () => { chosen = p; draw(); });
      return button;
    }));
    panels[0].innerHTML = dials(distance);
    panels[1].innerHTML = everyHand(distance);
    panels[2].innerHTML = curve(distance, Math.max(12, words.length));
    live.querySelector("#said").textContent = `Δ = ${distance}: cosine ${cosine(distance).toFixed(4)}; `
      + `the short form (dashed) says ${short(distance).toFixed(3)}`;
  }

  live.addEventListener("input", draw);
  draw();
})();
