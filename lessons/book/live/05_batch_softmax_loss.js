"use strict";
// Four pairs in the plane: drag the replies, turn the scale, take steps of gradient descent.

(() => {
  const RATE = 1, FIRST = { u: [10, 100, 190, 280], v: [40, 75, 215, 260] };    // degrees
  const live = document.querySelector("#live");
  live.innerHTML = `<p>Four inputs u (grey) and their replies v (blue), vectors of length 1. The arcs
    show where a step of rate ${RATE} moves each of them on the circle. Drag a reply. Turn up the
    scale: who still gets a gradient? Then take steps.</p>
    <label>scale <input type="range" name="scale" min="0" max="20" step="0.5" value="3"></label>
    <label>reply 1, degrees
      <input type="range" name="turn" min="0" max="359" value="75"></label>
    <button name="step">a step</button> <button name="again">from the start</button>
    <p id="said" aria-live="polite"></p>
    <div class="panels"><svg name="circle" viewBox="-115 -115 230 230" role="img"
      aria-label="Inputs and replies on a circle"></svg>${["scores s", "p, softmax of each row",
      "B · ds = p − δ"].map(title => `<svg viewBox="0 0 165 190" role="img"
      aria-label="${title}"><text x="3" y="18">${title}</text><g></g></svg>`).join("")}</div>`;
  const field = name => live.querySelector(`[name=${name}]`), circle = field("circle");
  const at = angle => [Math.cos(angle), Math.sin(angle)];
  const radians = degrees => degrees * Math.PI / 180;
  let angles = {};

  function softmax(row) {
    const top = Math.max(...row), powers = row.map(score => Math.exp(score - top));
    const sum = powers.reduce((a, b) => a + b);
    return powers.map(power => power / sum);
  }

  // s, p, p − δ, the loss, and by how much a step turns each vector: its gradient along the circle
  function batch() {
    const scale = Number(field("scale").value);
    const s = angles.u.map(a => angles.v.map(b => scale * Math.cos(a - b)));
    const p = s.map(softmax), ds = p.map((row, i) => row.map((share, j) => share - (i === j)));
    const pull = (i, j) => scale * ds[i][j] / 4 * Math.sin(angles.u[i] - angles.v[j]);
    const all = [0, 1, 2, 3], sum = (f) => all.reduce((total, k) => total + f(k), 0);
    return { s, p, ds, loss: sum(i => -Math.log(p[i][i])) / 4,
      u: all.map(i => RATE * sum(j => pull(i, j))), v: all.map(j => -RATE * sum(i => pull(i, j))) };
  }

  function cells(rows, most) {
    return rows.flatMap((row, i) => row.map((number, j) => `<rect x="${2 + 40 * j}"
      y="${28 + 40 * i}" width="38" height="38" stroke="gray"
      fill="${number < 0 ? "#1f5fa8" : "#c0392b"}"
      fill-opacity="${0.7 * Math.min(1, Math.abs(number) / most)}"/><text x="${21 + 40 * j}"
      y="${51 + 40 * i}" text-anchor="middle">${(number + 1e-9).toFixed(most > 1 ? 1 : 2)}</text>`));
  }

  function spokes(side, turns, colour, radius) {
    return angles[side].map((angle, k) => {
      const [x, y] = at(angle).map(c => 80 * c);
      const arc = [...Array(13).keys()].map(n => at(angle + turns[k] * n / 12)
        .map((c, axis) => (axis ? -radius : radius) * c)).join(" ");
      return `<line x2="${x}" y2="${-y}" stroke="${colour}" stroke-width="2.5"/>
        <polyline points="${arc}" fill="none" stroke="${colour}" stroke-width="5"
          stroke-opacity="0.5"/><text x="${1.25 * x}" y="${4 - 1.25 * y}"
          text-anchor="middle">${side}${"₀₁₂₃"[k]}</text>`;
    }).join("");
  }

  function draw() {
    const now = batch();
    circle.innerHTML = `<circle r="80" fill="none" stroke="gray" stroke-opacity="0.5"/>`
      + spokes("u", now.u, "gray", 84) + spokes("v", now.v, "#1f5fa8", 88);
    [[now.s, 20], [now.p, 1], [now.ds, 1]].forEach(([rows, most], k) => {
      live.querySelectorAll("g")[k].innerHTML = cells(rows, most).join("");
    });
    live.querySelector("#said").textContent = `scale ${field("scale").value}: loss `
      + `${now.loss.toFixed(4)}; all scores equal: ln 4 = ${Math.log(4).toFixed(4)}`;
  }

  function step() {
    const now = batch();
    for (const side of ["u", "v"]) angles[side] = angles[side].map((a, k) => a + now[side][k]);
    draw();
  }

  function restart() {
    angles = { u: FIRST.u.map(radians), v: FIRST.v.map(radians) };
    draw();
  }

  function pointed(event) {
    const box = circle.getBoundingClientRect();
    return Math.atan2(box.top + box.height / 2 - event.clientY,
      event.clientX - box.left - box.width / 2);
  }

  circle.addEventListener("pointerdown", event => {
    const nearness = angles.v.map(angle => Math.cos(angle - pointed(event)));
    const k = nearness.indexOf(Math.max(...nearness));
    const move = to => { angles.v[k] = pointed(to); draw(); };
    move(event);
    circle.setPointerCapture(event.pointerId);
    circle.onpointermove = move;
    circle.onpointerup = circle.onpointercancel = () => { circle.onpointermove = null; };
  });
  field("turn").addEventListener("input", () => { angles.v[1] = radians(field("turn").value); });
  field("step").addEventListener("click", step);
  field("again").addEventListener("click", restart);
  live.addEventListener("input", draw);
  restart();
})();
