// The round viewer. Steps through lists that Python made; every text goes in by textContent; nothing is counted here.
(() => {
  "use strict";
  const { runs, states } = JSON.parse(document.getElementById("viewer-data").textContent);
  const at = (name) => document.getElementById(name);
  const root = at("viewer");
  const PAUSE = 700; // milliseconds a step while playing
  let run = runs[0], now = 0, timer = null;

  function make(tag, words, kind) {
    const made = document.createElement(tag);
    made.textContent = words;
    if (kind) made.className = kind;
    return made;
  }

  // what is known of a token by now
  function facts(cell, state) {
    return cell.facts.slice(0, states[state][2]);
  }

  function token(cell, state) {
    const [kind, words] = states[state];
    const made = make("button", cell.token, "t " + kind);
    made.type = "button";
    const known = facts(cell, state).map((fact) => fact.join(" "));
    made.setAttribute("aria-label", [cell.token, words, ...known].join(", "));
    for (const event of ["pointerenter", "focus", "click"]) {
      made.addEventListener(event, () => inspect(cell, state));
    }
    return made;
  }

  function inspect(cell, state) {
    at("inspected").textContent = cell.token + " " + states[state][1];
    at("facts").replaceChildren(...facts(cell, state).map(([name, value]) => {
      const row = make("div", "");
      row.append(make("dt", name), make("dd", value));
      return row;
    }));
    // before the target's pass nobody knows its law
    const [title, bars] = state === "d" ? ["", []] : cell.bars;
    at("bars-title").textContent = title;
    at("bars").replaceChildren(...bars.map(([name, width, value]) => {
      const row = make("li", "");
      const bar = make("i", "");
      bar.style.width = width;
      const track = make("span", "", "track");
      track.append(bar);
      row.append(make("span", name, "name"), track, make("span", value, "value"));
      return row;
    }));
  }

  function forget() {
    at("inspected").textContent = "Point at a token: hover, tap or focus it";
    for (const name of ["facts", "bars"]) at(name).replaceChildren();
    at("bars-title").textContent = "";
  }

  function piece([words, chip, kind]) {
    return make("span", words, [chip ? "chip" : "", kind || ""].join(" "));
  }

  function show() {
    const step = run.steps[now];
    const cells = run.rounds[step.round];
    const focused = [...at("round").children].indexOf(document.activeElement);
    at("round").replaceChildren(...cells.map((cell, i) => token(cell, step.states[i])));
    if (focused >= 0 && cells[focused]) at("round").children[focused].focus();
    if (step.at === null) forget();
    else inspect(cells[step.at], step.states[step.at]);
    at("viewer-where").textContent = step.where;
    at("viewer-said").textContent = step.say;
    step.panel.forEach((value, i) => { at("panel-" + i).textContent = value; });
    step.bars.forEach((width, i) => { at("time-" + i).style.width = width; });
    at("text").replaceChildren(
      ...run.prompt.map(piece), ...run.text.slice(0, step.shown).map(piece));
    at("text").scrollTop = at("text").scrollHeight;
    for (const phase of root.querySelectorAll(".phases li")) {
      phase.classList.toggle("now", phase.id === "phase-" + step.phase);
    }
    const last = now === run.steps.length - 1;
    at("check").textContent = last ? run.check : "";
    at("check").classList.toggle("differs", run.differs);
    for (const name of ["first", "back", "back-round"]) at(name).disabled = now === 0;
    for (const name of ["next", "next-round", "last"]) at(name).disabled = last;
    if (last) pause();
  }

  function go(step) {
    now = step < 0 ? 0 : step >= run.steps.length ? run.steps.length - 1 : step;
    show();
  }

  // the end of this round going on, of the round before going back
  function goRound(forth) {
    const ends = run.ends;
    if (forth) go(ends.find((end) => end > now) ?? run.steps.length - 1);
    else go(ends.filter((end) => end < now).pop() ?? 0);
  }

  function pause() {
    clearTimeout(timer);
    timer = null;
    at("play").textContent = "▶ play";
    at("viewer-said").setAttribute("role", "status");
  }

  function tick() {
    go(now + 1);
    if (now < run.steps.length - 1) timer = setTimeout(tick, PAUSE);
  }

  function play() {
    if (timer !== null) { pause(); return; }
    if (now === run.steps.length - 1) go(0);
    at("play").textContent = "⏸ pause";
    at("viewer-said").removeAttribute("role"); // a screen reader is not read every step of a play
    timer = setTimeout(tick, 0);
  }

  const acts = {
    "first": () => go(0),
    "back-round": () => goRound(false),
    "back": () => go(now - 1),
    "play": play,
    "next": () => go(now + 1),
    "next-round": () => goRound(true),
    "last": () => go(run.steps.length - 1),
  };
  for (const [name, act] of Object.entries(acts)) {
    at(name).addEventListener("click", () => { if (name !== "play") pause(); act(); });
  }
  at("run").addEventListener("change", (event) => {
    pause();
    run = runs[event.target.value];
    go(0);
  });
  document.addEventListener("keydown", (event) => {
    const inside = root.contains(event.target);
    const free = event.target === document.body;
    if ((!inside && !free) || event.target.tagName === "SELECT") return;
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const forth = event.key === "ArrowRight";
    if (forth || event.key === "ArrowLeft") {
      pause();
      if (event.shiftKey) goRound(forth);
      else go(forth ? now + 1 : now - 1);
    } else if (event.key === " " && inside && !event.target.closest(".buttons")) {
      play();
    } else return;
    event.preventDefault();
  });
  at("run").value = "0";
  show();
})();
