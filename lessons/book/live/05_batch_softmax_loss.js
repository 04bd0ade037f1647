"use strict";
// A batch of four pairs in the plane: scores, softmax and gradient, with a scale to turn.

(() => {
  const INPUTS = [10, 100, 190, 280], REPLIES = [40, 75, 215, 260];    // directions in degrees
  const live = document.querySelector("#live");
  live.innerHTML = `<p>Four inputs u (grey) and their replies v (blue) as unit vectors in the plane; the
    orange arrow shows where a step moves u. Turn up the scale: who still gets a gradient? Turn reply
    1 onto reply 0.</p>
    <label>scale <input type="range" name="scale" min="0" max="20" step="0.5" value="3"></label>
    <label>turn of reply 1
      <input type="range" name="turn" min="-180" max="180" step="5" value="0"></label>
    <p id="said" aria-live="polite"></p>
    <svg viewBox="0 0 720 210" role="img" aria-label="Vectors, scores, shares and gradient"></svg>`;
  const value = name => Number(live.querySelector(`[name=${name}]`).value);
  const vector = degrees => [Math.cos(degrees * Math.PI / 180), Math.sin(degrees * Math.PI / 180)];
  const dot = (a, b) => a[0] * b[0] + a[1] * b[1];

  function softmax(row) {
    const top = Math.max(...row), powers = row.map(score => Math.exp(score - top));
    const sum = powers.reduce((a, b) => a + b);
    return powers.map(power => power / sum);
  }

  function grid(left, title, rows, most) {
    const cells = rows.flatMap((row, i) => row.map((number, j) => {
      const x = left + 40 * j, y = 30 + 40 * i, colour = number < 0 ? "#1f5fa8" : "#c0392b";
      return `<rect x="${x}" y="${y}" width="38" height="38" stroke="gray" fill="${colour}"
        fill-opacity="${0.7 * Math.min(1, Math.abs(number) / most)}"/>
        <text x="${x + 19}" y="${y + 24}" text-anchor="middle">${number.toFixed(2)}</text>`;
    }));
    return `<text x="${left}" y="20">${title}</text>${cells.join("")}`;
  }

  function arrow(from, [x, y], colour) {
    const start = [100 + 80 * from[0], 110 - 80 * from[1]];
    return `<line x1="${start[0]}" y1="${start[1]}" x2="${start[0] + 80 * x}" y2="${start[1] - 80 * y}"
      stroke="${colour}" stroke-width="2.5"/>`;
  }

  function circle(u, v, steps) {
    const names = v.map((at, j) => `<text x="${100 + 93 * at[0]}" y="${114 - 93 * at[1]}"
      text-anchor="middle">${j}</text>`);
    return `<circle cx="100" cy="110" r="80" fill="none" stroke="gray" stroke-opacity="0.5"/>`
      + u.map((at, i) => arrow([0, 0], at, "gray") + arrow(at, steps[i], "#d9601a")).join("")
      + v.map(at => arrow([0, 0], at, "#1f5fa8")).join("") + names.join("");
  }

  function draw() {
    const scale = value("scale"), u = INPUTS.map(vector);
    const v = REPLIES.map((angle, j) => vector(j === 1 ? angle + value("turn") : angle));
    const s = u.map(input => v.map(reply => scale * dot(input, reply)));
    const p = s.map(softmax);
    const ds = p.map((row, i) => row.map((share, j) => share - (i === j ? 1 : 0)));    // times B
    const steps = ds.map(row => [0, 1].map(axis =>
      -row.reduce((sum, pull, j) => sum + pull * v[j][axis], 0)));
    const loss = p.reduce((sum, row, i) => sum - Math.log(row[i]), 0) / 4;
    live.querySelector("svg").innerHTML = circle(u, v, steps) + grid(210, "scores s", s, 20)
      + grid(385, "p, softmax of each row", p, 1) + grid(560, "B · ds = p − δ", ds, 1);
    live.querySelector("#said").textContent = `scale ${scale}: loss ${loss.toFixed(4)}; `
      + `all scores equal: ln 4 = ${Math.log(4).toFixed(4)}`;
  }

  live.addEventListener("input", draw);
  draw();
})();
