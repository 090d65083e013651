// The legend of the colours: the scale from 0 to the maximum with numbers, and a menu that changes it.
import {choice, el, tick} from "./elements.js";
import {css, ramp, stretched, theme} from "./colours.js";
import {surface, write} from "./surface.js";
import {amount, number} from "./tokens.js";

export function scaleBar(app) {
  let now = null;
  const stretch = choice("Colour scale", (scale) => app.set({scale}));
  const colours = choice("Palette", (one) => app.set({colours: one}));
  const rowwise = tick("Scale per row", app.state.perRow, (perRow) => app.set({perRow}));
  const menu = el("details", {class: "menu"}, el("summary", {}, "Colours"), el("div", {}, stretch.element, colours.element, rowwise));
  const paint = (ctx, width) => {
    if (!now || !now.weights) return;
    const {weights, state, map} = now;
    const all = ramp(state.colours, weights.signed);
    const long = Math.min(width - 40, 320);
    const {soft, line} = theme();
    for (let x = 0; x < long; x++) {
      ctx.fillStyle = css(all[Math.round((255 * x) / long)]);
      ctx.fillRect(x, 2, 1.6, 10);
    }
    ctx.strokeStyle = line;
    ctx.lineWidth = 1;
    ctx.strokeRect(0.5, 2.5, long, 9);
    const most = weights.greatest;
    const ticks = weights.signed ? [-1, -0.25, 0, 0.25, 1] : [0, 0.01, 0.1, 0.25, 0.5, 1];
    let free = -Infinity;
    for (const share of ticks) {
      const level = stretched(share, state.scale);
      const x = (weights.signed ? 0.5 + level / 2 : level) * long;
      if (x - free < 54) continue;
      free = x;
      const align = x < 8 ? "left" : "center";
      write(ctx, state.perRow ? `${number(share)} of max` : amount(share * most, map), Math.max(x, 0), 22, {size: 11, colour: soft, align});
    }
  };
  const made = surface(app, {label: "Legend of the colours", paint, height: () => 30});
  const update = (next) => {
    now = next;
    stretch.show([["sqrt", "square root"], ["linear", "linear"], ["log", "logarithmic"]], now.state.scale);
    colours.show([["viridis", "viridis"], ["cividis", "cividis"]], now.state.colours);
    made.draw();
  };
  return {element: made.element, controls: menu, update};
}
