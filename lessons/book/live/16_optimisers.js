"use strict";
// The bowl of lesson 16: drag the start, click a rate and a momentum, see the steps that each needs.

(() => {
  const CURVATURES = [1, 1000], MOST = 4000;         // κ = 1000, as in the lesson
  const live = document.querySelector("#live");
  const slider = (name, text, low, high, step, value) => `<label>${text} <input type="range"
    name="${name}" min="${low}" max="${high}" step="${step}" value="${value}"></label>`;
  live.innerHTML = `<p>κ = 1000. Left: the bowl, each of its axes scaled so that lines of equal loss are
    circles; drag the start. Middle: momentum's first step at a thousandth of the loss, for each rate
    and μ, the bluer the earlier, red for later than 4,000; click on one. Right: the loss.
    Turn the axes: which of the two does that slow down?</p>
    ${slider("rate", "momentum: rate 10^", -4, -2.4, 0.01, -2.5)}
    ${slider("momentum", "μ", 0, 0.99, 0.01, 0.88)}
    ${slider("adam", "Adam: rate 10^", -3, -1, 0.01, -1.82)}
    ${slider("angle", "axes turned by", 0, 90, 1, 0)}
    <p id="said" aria-live="polite"></p><div class="panels">
    <svg name="bowl" viewBox="-3 -3 6 6" role="img" aria-label="Paths in the bowl"></svg>
    <svg name="map" viewBox="0 0 230 230" role="img" aria-label="Steps for rate and momentum"></svg>
    <svg viewBox="0 0 230 230" role="img" aria-label="Loss and steps"></svg></div>`;
  const field = name => live.querySelector(`[name=${name}]`), bowl = field("bowl");
  const value = name => Number(field(name).value);
  let start = [1, 1];                                // in the bowl's own axes, times √curvature

  const turned = ([x, y], angle) => [x * Math.cos(angle) - y * Math.sin(angle),
    x * Math.sin(angle) + y * Math.cos(angle)];
  const loss = ([a, b]) => (a * a + b * b) / 2;

  // Both go on up to the first step at a thousandth of the loss → the points, and whether they got there.
  const goesOn = (x, t) => t < MOST && loss(x) > loss(start) / 1000 && loss(x) < 1e6;
  const ended = (x, path) => ({ path, last: path.length - 1, reached: loss(x) <= loss(start) / 1000 });

  // v ← μ v − η g,  x ← x + v, in the bowl's own axes, scaled: a turn changes nothing
  function momentumFrom(rate, mu) {
    const v = [0, 0], path = [start];
    let x = start;
    for (let t = 0; goesOn(x, t); t++) {
      for (const i of [0, 1]) v[i] = mu * v[i] - rate * CURVATURES[i] * x[i];
      path.push(x = [x[0] + v[0], x[1] + v[1]]);
    }
    return ended(x, path);
  }

  // m/(1 − β₁ᵗ) over the root of s/(1 − β₂ᵗ), in the turned axes
  function adamFrom(rate, angle) {
    const path = [start], m = [0, 0], s = [0, 0];
    let x = turned(start.map((c, i) => c / Math.sqrt(CURVATURES[i])), angle), scaled = start;
    for (let t = 1; goesOn(scaled, t - 1); t++) {
      const g = turned(turned(x, -angle).map((c, i) => CURVATURES[i] * c), angle);
      for (const i of [0, 1]) {
        m[i] = 0.9 * m[i] + 0.1 * g[i];
        s[i] = 0.999 * s[i] + 0.001 * g[i] * g[i];
        x[i] -= rate * m[i] / (1 - 0.9 ** t) / (Math.sqrt(s[i] / (1 - 0.999 ** t)) + 1e-8);
      }
      path.push(scaled = turned(x, -angle).map((c, i) => Math.sqrt(CURVATURES[i]) * c));
    }
    return ended(scaled, path);
  }

  const steps = run => `${run.reached ? "" : "not in "}${run.last} steps`;
  const points = (path, f) => path.map((x, t) => f(x, t).map(c => c.toFixed(3))).join(" ");

  function heat() {
    const cells = [];
    for (let i = 0; i < 20; i++) for (let j = 0; j < 20; j++) {
      const run = momentumFrom(10 ** (-4 + 1.6 * (i + 0.5) / 20), 0.99 * (j + 0.5) / 20);
      const light = 1 - Math.log(Math.max(1, run.last / 60)) / Math.log(MOST / 60);
      cells.push(`<rect x="${20 + 10 * i}" y="${200 - 10 * j}" width="10" height="10"
        fill="${run.reached ? "#1f5fa8" : "#7a1f1f"}" fill-opacity="${run.reached ? light : 0.6}"/>`);
    }
    return cells.join("");
  }

  function losses(path, colour) {
    const at = (x, t) => [25 + 200 * t / 500, 70 - 30 * Math.log10(Math.max(1e-4, loss(x) / loss(start)))];
    return `<polyline points="${points(path.slice(0, 501), at)}" fill="none" stroke="${colour}"/>`;
  }

  function draw(event) {
    const momentum = momentumFrom(10 ** value("rate"), value("momentum"));
    const adam = adamFrom(10 ** value("adam"), value("angle") * Math.PI / 180);
    const line = (path, colour) => `<polyline points="${points(path, ([x, y]) => [x, -y])}" fill="none"
      stroke="${colour}" stroke-width="0.02"/>`;
    bowl.innerHTML = [0.5, 1, 1.5, 2, 2.5].map(r => `<circle r="${r}" fill="none" stroke="gray"
      stroke-opacity="0.5" stroke-width="0.02"/>`).join("") + line(adam.path, "#2ca02c")
      + line(momentum.path, "#ff7f0e") + `<circle cx="${start[0]}" cy="${-start[1]}" r="0.09"/>`;
    if (!event?.target.name) map = heat();           // it depends on the start alone
    const [x, y] = [20 + 200 * (value("rate") + 4) / 1.6, 210 - 200 * value("momentum") / 0.99];
    field("map").innerHTML = `${map}<circle cx="${x}" cy="${y}" r="5" fill="none" stroke="#ff7f0e"
      stroke-width="2.5"/><text x="20" y="226">rate, 10⁻⁴ to 10⁻²·⁴</text>
      <text x="14" y="205" transform="rotate(-90 14 205)">μ, 0 to 0.99</text>`;
    live.querySelector("svg:last-child").innerHTML = `<path d="M25 5V205H225M25 160H225" fill="none"
      stroke="gray"/><text x="14" y="74">1</text><text x="28" y="157">1/1000</text>
      <text x="225" y="222" text-anchor="end">step, to 500</text>`
      + losses(adam.path, "#2ca02c") + losses(momentum.path, "#ff7f0e");
    live.querySelector("#said").textContent = `momentum (orange), rate `
      + `${(10 ** value("rate")).toPrecision(3)}, μ ${value("momentum")}: ${steps(momentum)}; `
      + `Adam (green), rate ${(10 ** value("adam")).toPrecision(3)}: ${steps(adam)}`;
  }

  let map = "";
  function place(event, svg) {
    const box = svg.getBoundingClientRect(), size = Math.min(box.width, box.height);
    return [(event.clientX - box.left - (box.width - size) / 2) / size,
      (event.clientY - box.top - (box.height - size) / 2) / size];
  }
  const move = event => {
    const [x, y] = place(event, bowl);
    start = [6 * x - 3, 3 - 6 * y].map(c => Math.max(-2.8, Math.min(2.8, c)));
    draw();
  };
  bowl.addEventListener("pointerdown", event => {
    bowl.setPointerCapture(event.pointerId);
    move(event);
    bowl.onpointermove = move;
    bowl.onpointerup = bowl.onpointercancel = () => { bowl.onpointermove = null; };
  });
  field("map").addEventListener("click", event => {
    const [x, y] = place(event, field("map"));
    field("rate").value = -4 + 1.6 * (230 * x - 20) / 200;
    field("momentum").value = 0.99 * (210 - 230 * y) / 200;
    draw({ target: field("rate") });
  });
  live.addEventListener("input", draw);
  draw();
})();
