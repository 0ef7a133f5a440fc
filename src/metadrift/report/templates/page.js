"use strict";
const root = document.documentElement;
const tip = document.getElementById("tip");

// Light or dark: the system's choice until the button is used.
const remembered = (() => { try { return localStorage.getItem("metadrift-theme"); } catch { return null; } })();
if (remembered === "light" || remembered === "dark") root.dataset.theme = remembered;
document.getElementById("theme").addEventListener("click", () => {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try { localStorage.setItem("metadrift-theme", root.dataset.theme); } catch { /* a page from a file may not */ }
});

// Hide a variant in every chart and table.
const hiddenVariants = new Set();
for (const chip of document.querySelectorAll("[data-toggle]")) {
  chip.addEventListener("click", () => {
    const key = chip.dataset.toggle, off = !hiddenVariants.has(key);
    if (off) hiddenVariants.add(key); else hiddenVariants.delete(key);
    chip.setAttribute("aria-pressed", String(!off));
    for (const part of document.querySelectorAll("[data-variant]"))
      if (part.dataset.variant === key) part.classList.toggle("off", off);
  });
}

function show(event, head, rows) {
  tip.replaceChildren();
  const title = document.createElement("b");
  title.textContent = head;
  tip.append(title);
  for (const row of rows) {
    const line = document.createElement("div"), swatch = document.createElement("i");
    swatch.className = "swatch";
    swatch.style.background = `var(--${row.colour})`;
    line.append(swatch, `${row.name} `, Object.assign(document.createElement("span"), { textContent: row.value }));
    tip.append(line);
  }
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const left = event.clientX + 14 + box.width > innerWidth ? event.clientX - box.width - 14 : event.clientX + 14;
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${Math.max(4, Math.min(event.clientY + 12, innerHeight - box.height - 4))}px`;
}

function nearest(xs, x) {
  let best = 0;
  for (let i = 1; i < xs.length; i++) if (Math.abs(xs[i] - x) < Math.abs(xs[best] - x)) best = i;
  return best;
}

for (const svg of document.querySelectorAll("svg[data-hover]")) {
  const data = JSON.parse(svg.dataset.hover), cross = svg.querySelector(".cross");
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const at = (event.clientX - box.left) / box.width * svg.viewBox.baseVal.width;
    const seen = data.series.filter((s) => s.x.length && !hiddenVariants.has(String(s.variant)));
    if (at < data.left || at > data.right || !seen.length) { leave(); return; }
    const x = data.x[0] + (at - data.left) / (data.right - data.left) * (data.x[1] - data.x[0]);
    const step = seen[0].x[nearest(seen[0].x, x)];
    const place = data.left + (step - data.x[0]) / (data.x[1] - data.x[0]) * (data.right - data.left);
    cross.setAttribute("x1", place);
    cross.setAttribute("x2", place);
    svg.classList.add("hovered");
    const said = event.target.closest("[data-tip]:not(.span):not(.shade)");
    show(event, said ? said.dataset.tip : `step ${step}`,
      seen.map((s) => ({ name: s.name, colour: s.colour, value: s.y[nearest(s.x, step)] })));
  });
  const leave = () => { svg.classList.remove("hovered"); tip.hidden = true; };
  svg.addEventListener("pointerleave", leave);
}
for (const part of document.querySelectorAll("[data-tip]")) {
  if (part.closest("svg[data-hover]")) continue;
  part.addEventListener("pointermove", (event) => show(event, part.dataset.tip, []));
  part.addEventListener("pointerleave", () => { tip.hidden = true; });
}
