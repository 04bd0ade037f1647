"use strict";
// Lesson 12's six words: their scores q · k, the shares p, and who still gets a gradient, for each m.

(() => {
  const WORDS = ["it", "is", "too", "big", "to", "fit"], N = WORDS.length;
  const live = document.querySelector("#live");
  live.innerHTML = `<p>Each word's query meets each word's key: random numbers of mean 0 and variance 1.
    Left the scores, in the middle the shares p that each row makes of them, right the size g of each
    number in the gradient of the word's query; orange: a word that no longer hesitates (its largest p
    is above 0.99). Turn up m. Then divide by √m.</p>
    <label>m = 2^ <input type="range" name="power" min="2" max="10" value="6"></label>
    <label>divide by √m: no, yes <input type="range" name="root" min="0" max="1" value="0"></label>
    <p id="said" aria-live="polite"></p><div class="panels">${["scores", "shares p", "g, gradient of q"]
      .map(title => `<svg viewBox="0 0 265 215" role="img" aria-label="${title}"><text x="32"
      y="14">${title}</text><g></g></svg>`).join("")}</div>`;
  const value = name => Number(live.querySelector(`[name=${name}]`).value);
  const all = [...Array(N).keys()];

  // q, k, v, dy of a word: numbers of variance 1 that look random, n² φ without its whole part
  function number(kind, word, place) {
    const n = 1 + place + 1024 * (word + N * kind);
    return Math.sqrt(12) * (n * n * 0.6180339887498949 % 1 - 0.5);
  }

  function products(left, right, m) {                // (N, N): words' vectors of two kinds
    return all.map(i => all.map(j => {
      let sum = 0;
      for (let e = 0; e < m; e++) sum += number(left, i, e) * number(right, j, e);
      return sum;
    }));
  }

  function softmax(row) {
    const top = Math.max(...row), powers = row.map(score => Math.exp(score - top));
    const sum = powers.reduce((a, b) => a + b);
    return powers.map(power => power / sum);
  }

  // ds = p (dp − Σ p dp), dq = ds k over the root; g = ‖dq‖/√m
  function head(m, root) {
    const s = products(0, 1, m).map(row => row.map(score => score / root)), p = s.map(softmax);
    const dp = products(3, 2, m);
    const g = all.map(i => {
      const average = all.reduce((sum, j) => sum + p[i][j] * dp[i][j], 0);
      let square = 0;
      for (let e = 0; e < m; e++) {
        square += all.reduce((sum, j) => sum + p[i][j] * (dp[i][j] - average) * number(1, j, e), 0) ** 2;
      }
      return Math.sqrt(square / m) / root;
    });
    return { s, p, g };
  }

  const names = all.map(j => `<text x="${52 + 38 * j}" y="34" text-anchor="middle">${WORDS[j]}</text>
    <text x="4" y="${58 + 28 * j}">${WORDS[j]}</text>`).join("");
  function cells(rows, most, digits) {
    return names + rows.flatMap((row, i) => row.map((number, j) => `<rect x="${34 + 38 * j}"
      y="${40 + 28 * i}" width="36" height="26" stroke="gray" fill="${number < 0 ? "#c0392b" : "#1f5fa8"}"
      fill-opacity="${0.7 * Math.min(1, Math.abs(number) / most)}"/><text x="${52 + 38 * j}"
      y="${58 + 28 * i}" text-anchor="middle">${number.toFixed(digits)}</text>`)).join("");
  }

  function draw() {
    const m = 2 ** value("power"), root = value("root") ? Math.sqrt(m) : 1, { s, p, g } = head(m, root);
    const decided = p.map(row => Math.max(...row) > 0.99);
    const groups = live.querySelectorAll("g");
    groups[0].innerHTML = cells(s, 10, 1);
    groups[1].innerHTML = cells(p, 1, 2);
    groups[2].innerHTML = all.map(i => `<text x="4" y="${58 + 28 * i}">${WORDS[i]}</text><rect x="34"
      y="${42 + 28 * i}" width="${Math.min(150, 60 * g[i])}" height="22"
      fill="${decided[i] ? "#d9601a" : "#1f5fa8"}"/><text x="${40 + Math.min(150, 60 * g[i])}"
      y="${58 + 28 * i}">${g[i].toPrecision(2)}</text>`).join("");
    const sorted = [...g].sort((a, b) => a - b);
    live.querySelector("#said").textContent = `m = ${m}, scores of size ${(Math.sqrt(m) / root).toFixed(1)}: `
      + `${decided.filter(each => !each).length} of ${N} words hesitate; mean of g `
      + `${(g.reduce((a, b) => a + b) / N).toPrecision(6)}, median `
      + `${((sorted[2] + sorted[3]) / 2).toPrecision(3)}`;
  }

  live.addEventListener("input", draw);
  draw();
})();
