// The interactive plate. Looks up what Python formatted and moves it into place; computes nothing.
(() => {
  "use strict";
  const plate = JSON.parse(document.getElementById("plate-data").textContent);
  const at = (name) => document.getElementById(name);
  const root = at("plate");
  const choice = {};
  plate.controls.forEach(([name], i) => { choice[name] = String(plate.start[i]); });

  function place(shape, spot) {
    shape.style.display = spot ? "" : "none";
    if (spot) {
      shape.setAttribute("cx", spot[0]);
      shape.setAttribute("cy", spot[1]);
    }
  }

  function draw() {
    const names = plate.controls.map(([name]) => name);
    const key = names.map((name) => choice[name]);
    const setting = plate.settings[key.join(",")];
    const curve = plate.curves[key.slice(0, -1).join(",")];
    for (const chart of ["tokens", "speed"]) {
      const paths = curve ? curve[chart] : { line: "", band: "", formula: "" };
      for (const part of ["line", "band", "formula"]) {
        at(chart + "-" + part).setAttribute("d", paths[part]);
      }
      place(at(chart + "-ring"), curve ? curve.ring[chart] : null);
      const dot = setting ? setting.dots[chart] : null;
      place(at(chart + "-dot"), dot);
      at(chart + "-whisker").setAttribute("d", dot ? dot[2] : "");
      at(chart + "-said").textContent = setting ? setting.say : plate.absent;
    }
    plate.readouts.forEach((name, i) => {
      at("read-" + name).textContent = setting ? setting.shown[i] : "–";
    });
    at("plate-said").textContent = setting ? setting.say : plate.absent;
    const labels = Object.fromEntries(plate.controls);
    at("gamma-shown").textContent = labels.gamma[choice.gamma];
    at("gamma").setAttribute("aria-valuetext", "γ " + labels.gamma[choice.gamma]);
    root.style.setProperty("--draft", plate.colours[choice.draft]);
  }

  root.addEventListener("input", (event) => {
    const name = event.target.name || event.target.id;
    choice[name] = event.target.value;
    draw();
  });
  // a browser may bring back a form's last state: the page's own start is what is shown
  for (const input of root.querySelectorAll("input[type=radio]")) {
    input.checked = input.value === choice[input.name];
  }
  at("gamma").value = choice.gamma;
  draw();
})();
