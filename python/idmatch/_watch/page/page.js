"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const COLOURS = ["#2f7ed8", "#d9822b", "#2a9d6f", "#b04fb0", "#c94f4f", "#7a8a1f", "#1f9fb5", "#8a6d3b", "#6a6ad8", "#d1699a"];
const isDark = () => matchMedia("(prefers-color-scheme: dark)").matches;

function text(name, content, parent, attributes = {}) {
  const made = document.createElement(name);
  if (content !== null) made.textContent = content;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  parent.append(made);
  return made;
}

function scaled(value, base, units) {
  let at = 0;
  while (Math.abs(value) >= base && at < units.length - 1) { value /= base; at += 1; }
  return `${+value.toPrecision(3)}${units[at]}`;
}

function seconds(value) {
  const most = Math.abs(value);
  if (most === 0) return "0 s";
  if (most < 1e-3) return `${+(value * 1e6).toPrecision(3)} µs`;
  if (most < 1) return `${+(value * 1e3).toPrecision(3)} ms`;
  if (most < 120) return `${+value.toPrecision(3)} s`;
  if (most < 7200) return `${+(value / 60).toPrecision(3)} min`;
  if (most < 172800) return `${+(value / 3600).toPrecision(3)} h`;
  return `${+(value / 86400).toPrecision(3)} d`;
}

const SHOWN = {
  short: (value) => scaled(value, 1000, ["", " k", " M", " G", " T"]),
  ops: (value) => `${scaled(value, 1000, ["", " k", " M"])}/s`,
  rowsps: (value) => `${scaled(value, 1000, ["", " k", " M"])} rows/s`,
  s: seconds,
  bytes: (value) => scaled(value, 1024, [" B", " KiB", " MiB", " GiB", " TiB"]),
  Bps: (value) => `${scaled(value, 1024, [" B", " KiB", " MiB", " GiB"])}/s`,
  percentunit: (value) => `${+(value * 100).toPrecision(3)} %`,
};

function show(panel, parent) {
  const section = text("section", null, parent);
  text("h2", panel.title, section);
  const about = text("p", null, section);
  panel.about.split("`").forEach((part, at) => text(at % 2 ? "code" : "span", part, about));
  if (!panel.series.length) {
    text("div", "no data", section, { class: "empty" });
    return;
  }
  const unit = SHOWN[panel.unit];
  const graph = text("div", null, section, { role: "img", "aria-label": `Graph of ${panel.title}; the table below has its values` });
  const line = isDark() ? "#363d45" : "#e3e7eb", soft = isDark() ? "#a3adb7" : "#55606a";
  const axis = { stroke: soft, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
  const series = panel.series.map((one, at) => ({ label: one.legend, stroke: COLOURS[at % COLOURS.length], width: 1.5, points: { show: one.values.filter((v) => v !== null).length < 3 } }));
  const plot = new uPlot({
    width: graph.clientWidth || 480, height: 190, legend: { show: false }, cursor: { points: { size: 6 } },
    scales: { y: { range: (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.05 : 1] } },
    axes: [axis, { ...axis, size: 78, values: (_, values) => values.map(unit) }],
    series: [{}, ...series],
  }, [data.times, ...panel.series.map((one) => one.values)], graph);
  new ResizeObserver(() => plot.setSize({ width: graph.clientWidth, height: 190 })).observe(graph);
  const legend = text("ul", null, section, { class: "legend", "aria-hidden": "true" });
  panel.series.forEach((one, at) => {
    const entry = text("li", null, legend);
    text("span", null, entry).style.background = COLOURS[at % COLOURS.length];
    entry.append(one.legend);
  });
  table(panel, unit, section);
}

function table(panel, unit, section) {
  const details = text("details", null, section);
  text("summary", "Values", details);
  const made = text("table", null, text("div", null, details, { class: "rows" }));
  const head = text("tr", null, text("thead", null, made));
  for (const name of ["series", "last", "lowest", "mean", "highest"]) text("th", name, head, { scope: "col" });
  const body = text("tbody", null, made);
  for (const one of panel.series) {
    const values = one.values.filter((value) => value !== null), row = text("tr", null, body);
    text("th", one.legend, row, { scope: "row" });
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    for (const value of [values.at(-1), Math.min(...values), mean, Math.max(...values)]) text("td", unit(value), row);
  }
}

function open(name) {
  const board = data.boards.find((one) => one.name === name) || data.boards[0];
  document.querySelectorAll("nav a").forEach((link) => {
    if (link.hash === `#${board.name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  });
  const panels = document.getElementById("panels");
  panels.replaceChildren();
  board.panels.forEach((panel) => show(panel, panels));
}

const stamp = (time) => new Date(time * 1000).toLocaleString();
document.getElementById("span").textContent = `${stamp(data.times[0])} to ${stamp(data.times.at(-1))}`;
data.boards.forEach((board) => text("a", board.name, document.getElementById("boards"), { href: `#${board.name}` }));
addEventListener("hashchange", () => open(location.hash.slice(1)));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => open(location.hash.slice(1)));
open(location.hash.slice(1));
