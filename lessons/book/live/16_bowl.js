"use strict";
// The bowl of lesson 16: momentum and Adam from one start, with a rate, a momentum and an angle.

(() => {
  const CURVATURES = [1, 20], START = [3, 0.8], STEPS = 40, SCALE = 60;
  const live = document.querySelector("#live");
  live.innerHTML = `<p>κ = 20 and ${STEPS} steps. Which rate is too high? What does momentum change, and
    for whom does the angle matter?</p>
    <label>rate <input type="range" name="rate" min="0.005" max="0.2" step="0.005" value="0.09"></label>
    <label>momentum μ (Adam: β₁)
      <input type="range" name="momentum" min="0" max="0.98" step="0.01" value="0"></label>
    <label>angle <input type="range" name="angle" min="0" max="90" value="0"></label>
    <p id="said" aria-live="polite"></p>
    <svg viewBox="-240 -150 480 300" role="img" aria-label="Paths in a bowl"></svg>`;
  const value = name => Number(live.querySelector(`[name=${name}]`).value);
  const turned = ([x, y], angle) => [x * Math.cos(angle) - y * Math.sin(angle),
    x * Math.sin(angle) + y * Math.cos(angle)];

  // L = ½ xᵀ A x, where A has its axes turned by the angle
  const inAxes = (x, angle) => turned(x, -angle);
  const loss = (x, angle) => inAxes(x, angle).reduce((sum, c, i) => sum + CURVATURES[i] * c * c / 2, 0);
  const gradient = (x, angle) => turned(inAxes(x, angle).map((c, i) => CURVATURES[i] * c), angle);

  // v ← μ v − η g,  x ← x + v
  function momentumPath(rate, mu, angle) {
    let x = turned(START, angle), v = [0, 0];
    const path = [x];
    for (let t = 1; t <= STEPS; t++) {
      const g = gradient(x, angle);
      v = v.map((c, i) => mu * c - rate * g[i]);
      x = x.map((c, i) => c + v[i]);
      path.push(x);
    }
    return path;
  }

  // m/(1 − β₁ᵗ) over the root of s/(1 − β₂ᵗ)
  function adamPath(rate, beta1, angle) {
    const beta2 = 0.999;
    let x = turned(START, angle), m = [0, 0], s = [0, 0];
    const path = [x];
    for (let t = 1; t <= STEPS; t++) {
      const g = gradient(x, angle);
      m = m.map((c, i) => beta1 * c + (1 - beta1) * g[i]);
      s = s.map((c, i) => beta2 * c + (1 - beta2) * g[i] * g[i]);
      x = x.map((c, i) => c - rate * m[i] / (1 - beta1 ** t)
        / (Math.sqrt(s[i] / (1 - beta2 ** t)) + 1e-8));
      path.push(x);
    }
    return path;
  }

  function line(path, colour) {
    const shown = path.filter(([x, y]) => Math.abs(x) < 50 && Math.abs(y) < 50);
    const at = shown.map(([x, y]) => `${x * SCALE},${-y * SCALE}`);
    const dots = at.map(point => `<circle cx="${point.split(",")[0]}" cy="${point.split(",")[1]}"
      r="2.5" fill="${colour}"/>`);
    return `<polyline points="${at.join(" ")}" fill="none" stroke="${colour}"/>${dots.join("")}`;
  }

  function draw() {
    const angle = value("angle") * Math.PI / 180, rate = value("rate"), mu = value("momentum");
    const levels = [0.1, 0.4, 1, 2, 4, 8, 16].map(level => `<ellipse fill="none" stroke="gray"
      stroke-opacity="0.5" rx="${Math.sqrt(2 * level / CURVATURES[0]) * SCALE}"
      ry="${Math.sqrt(2 * level / CURVATURES[1]) * SCALE}" transform="rotate(${-value("angle")})"/>`);
    const momentum = momentumPath(rate, mu, angle), adam = adamPath(rate, mu, angle);
    live.querySelector("svg").innerHTML = levels.join("") + line(adam, "#2ca02c")
      + line(momentum, "#ff7f0e") + `<text x="-235" y="-132">orange: momentum, green: Adam</text>`;
    const ends = [momentum, adam].map(path => loss(path[STEPS], angle).toPrecision(3));
    live.querySelector("#said").textContent = `rate ${rate}, μ ${mu}, ${value("angle")}°: from a loss of `
      + `${loss(momentum[0], angle).toPrecision(3)} to ${ends[0]} (momentum) and ${ends[1]} (Adam)`;
  }

  live.addEventListener("input", draw);
  draw();
})();
