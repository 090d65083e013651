// Line charts over training steps: losses, scores, learning rates. Each has its own scale and a caption
// with the values at the chosen step, at first the last one.
import {el} from "./elements.js";
import {theme} from "./colours.js";
import {FONT, surface, write} from "./surface.js";
import {number, spaced} from "./tokens.js";

const LEFT = 46; // pixels for the numbers of the axis, or more if one is longer
const LOW = 22;
const FEW = 20; // a line with at most as many points shows each of them
const TINTS = [
  ["#2f5d8a", "#8db8e3"], ["#b35806", "#ffb66e"], ["#3d7d4f", "#8fd3a2"], ["#7b4fa3", "#cfa8ef"],
  ["#8a2f4b", "#f09ab4"], ["#4f6d00", "#c3d96b"], ["#00707a", "#6fd6df"], ["#6b5a45", "#cdbba3"],
];
const DASHES = [["solid", []], ["dashed", [6, 3]], ["dotted", [2, 3]]];
// The style of line n: neighbours differ, and lines of the same colour, too.
const dashes = (at) => DASHES[(at + 2 * Math.floor(at / TINTS.length)) % DASHES.length];

// Round numbers that span a range, about `count` of them.
export function ticksOf(low, high, count = 4) {
  const raw = (high - low) / count || Math.abs(high) || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= raw * 0.75);
  const ticks = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9; at += step) ticks.push(at);
  return ticks;
}

// The powers of ten in a range of steps.
const powers = (first, last) => Array.from({length: 10}, (_, at) => 10 ** at).filter((one) => one >= first && one <= last);

// lines: [{name, steps, values}] of one chart. log: whether the axis of steps is logarithmic.
export function curve(app, title, lines, {log = false} = {}) {
  const local = {step: null, left: LEFT};
  const points = lines.flatMap((line) => line.values.map((value, at) => [line.steps[at], value])).filter((one) => Number.isFinite(one[1]));
  const range = (at) => points.reduce(([low, high], one) => [Math.min(low, one[at]), Math.max(high, one[at])], [Infinity, -Infinity]);
  const [first, last] = range(0);
  let [low, high] = range(1);
  if (low === high) [low, high] = [low - Math.abs(low || 1) / 2, high + Math.abs(high || 1) / 2];
  // The place of a step on the axis, from 0 to 1, and the step at a place; a logarithmic axis holds step 0, too.
  const scaled = (step) => (log ? Math.log1p(step) : step);
  const position = (step) => (scaled(step) - scaled(first)) / (scaled(last) - scaled(first) || 1);
  const steps = [...new Set(lines.flatMap((line) => line.steps))].sort((a, b) => a - b);
  const nearest = (line, step) => line.steps.reduce((best, one, at) => (Math.abs(one - step) < Math.abs(line.steps[best] - step) ? at : best), 0);
  const caption = () => {
    const step = local.step ?? last;
    const said = (line) => {
      const at = nearest(line, step);
      const isOutside = step < line.steps[0] || step > line.steps.at(-1); // the run ended before
      return `${spaced(line.name)} ${number(line.values[at])}${isOutside ? ` (step ${line.steps[at].toLocaleString("en-GB")})` : ""}`;
    };
    return `Step ${step.toLocaleString("en-GB")}: ${lines.map(said).join(", ")}`;
  };
  const words = el("figcaption", {"aria-live": "polite"}, caption());
  const paint = (ctx, width, height) => {
    const {soft, line: grey, pin, dark} = theme();
    ctx.font = `11px ${FONT}`;
    const left = (local.left = Math.max(LEFT, ...ticksOf(low, high).map((tick) => 10 + ctx.measureText(number(tick)).width)));
    const x = (step) => left + position(step) * (width - left - 12);
    const y = (value) => height - LOW - ((value - low) / (high - low)) * (height - LOW - 12);
    for (const tick of ticksOf(low, high)) {
      ctx.strokeStyle = grey;
      ctx.lineWidth = 1;
      ctx.beginPath();
      ctx.moveTo(left, y(tick));
      ctx.lineTo(width - 12, y(tick));
      ctx.stroke();
      write(ctx, number(tick), left - 6, y(tick), {size: 11, colour: soft, align: "right"});
    }
    for (const tick of log ? powers(first, last) : ticksOf(first, last, width < 400 ? 3 : 5)) write(ctx, tick.toLocaleString("en-GB"), x(tick), height - 8, {size: 11, colour: soft, align: tick === last ? "right" : "center"});
    lines.forEach((line, at) => {
      ctx.strokeStyle = TINTS[at % TINTS.length][dark ? 1 : 0];
      ctx.lineWidth = 1.8;
      ctx.setLineDash(dashes(at)[1]);
      ctx.beginPath();
      let pen = false;
      line.values.forEach((value, n) => {
        if (!Number.isFinite(value)) { pen = false; return; }
        ctx[pen ? "lineTo" : "moveTo"](x(line.steps[n]), y(value));
        pen = true;
      });
      ctx.stroke();
      ctx.fillStyle = ctx.strokeStyle;
      if (line.values.length <= FEW) line.values.forEach((value, n) => { if (Number.isFinite(value)) ctx.fillRect(x(line.steps[n]) - 2.5, y(value) - 2.5, 5, 5); });
    });
    ctx.setLineDash([]);
    if (local.step === null) return;
    ctx.strokeStyle = pin;
    ctx.lineWidth = 1;
    ctx.beginPath();
    ctx.moveTo(x(local.step), 8);
    ctx.lineTo(x(local.step), height - LOW);
    ctx.stroke();
  };
  const go = (at) => { local.step = steps[Math.max(0, Math.min(steps.length - 1, at))]; words.textContent = caption(); made.draw(); };
  const current = () => (local.step === null ? steps.length - 1 : steps.findLastIndex((one) => one <= local.step));
  const made = surface(app, {
    label: `${title}: ${lines.map((one) => one.name).join(", ")} over training steps. Arrow keys choose a step.`, paint, title: "line chart",
    height: (width) => Math.min(240, width * 0.55), move: (dx, dy) => go(current() + dx - dy), ends: (way) => go(way < 0 ? 0 : steps.length - 1), pin: () => {},
    point: (x, y, kind) => {
      if (kind === "leave") return;
      const place = (x - local.left) / (made.size.width - local.left - 12);
      go(steps.reduce((best, one, at) => (Math.abs(position(one) - place) < Math.abs(position(steps[best]) - place) ? at : best), 0));
    },
  });
  const legend = el("p", {class: "legend"}, lines.map((line, at) => {
    const swatch = el("span", {class: "swatch", style: {"border-top": `3px ${dashes(at)[0]} light-dark(${TINTS[at % TINTS.length].join(", ")})`}, "aria-hidden": "true"});
    return el("span", {}, swatch, spaced(line.name));
  }));
  // Moves the cursor to a step.
  const mark = (step) => { local.step = step; words.setAttribute("aria-live", "off"); words.textContent = caption(); made.draw(); };
  return {element: el("figure", {class: "curve"}, el("h4", {}, spaced(title)), lines.length > 1 ? legend : "", made.element, words), draw: made.draw, mark};
}
