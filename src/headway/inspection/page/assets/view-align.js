// The alignment of a translation: the source above the target, with a line for each large cross-attention
// weight; the larger the weight, the thicker the line.
import {el, slider} from "./elements.js";
import {colourOf, css, theme, tokenColour} from "./colours.js";
import {FONT, surface, write} from "./surface.js";
import {nameOf, percent, shorten} from "./tokens.js";

const GAP = 14;
const WIDEST = 72; // pixels: the largest gap between two words
const TYPE = [15, 26]; // pixels: the smallest type, and the largest, if all words fit in one line

// Arranges words in lines, from side to side: boxes [{x, y, width, text}], and the height of all lines.
function arranged(ctx, words, width, size) {
  ctx.font = `${size}px ${FONT}`;
  const LINE = lineOf(size);
  const boxes = [];
  const long = words.reduce((sum, text) => sum + Math.min(ctx.measureText(text).width, width), 0);
  const gap = Math.max(GAP, Math.min(WIDEST, (width - long) / Math.max(1, words.length - 1)));
  let [x, y] = [0, 0];
  for (const text of words) {
    const long = Math.min(ctx.measureText(text).width, width);
    if (x && x + long > width) [x, y] = [0, y + LINE];
    boxes.push({x, y, width: long, text});
    x += long + gap;
  }
  return {boxes, height: y + LINE};
}

const lineOf = (size) => 2 * size;

// Returns the largest type with which these words fit in one line.
function typeFor(ctx, lists, width) {
  ctx.font = `100px ${FONT}`;
  const longest = (words) => words.reduce((sum, text) => sum + ctx.measureText(text).width / 100, 0);
  const sizes = lists.map((words) => (width - (GAP + 12) * words.length) / Math.max(1, longest(words)));
  return Math.max(TYPE[0], Math.min(TYPE[1], ...sizes));
}

const titled = (role, side) => (side === role ? role : `${role} (${side})`);

const same = (a, b) => JSON.stringify(a.tokens) === JSON.stringify(b.tokens);

export const alignment = {
  id: "alignment",
  title: "Alignment",
  lead: "Cross-attention as an alignment: source above, target below. A line joins a target word to the source words it attends to; thicker lines are larger weights. Choose a word to see only its lines.",
  joins: "words",
  plays: true,
  wants: ({sides}, map) => map.queries !== map.keys && !sides[map.queries].grid && !sides[map.keys].grid,
  make(app) {
    const local = {now: null, least: 0.12, hover: null, boxes: [], line: 30};
    const least = slider("Smallest weight", 0.01, 0.9, 0.01, 0.12, percent, (one) => { local.least = one; made.draw(); });
    const short = (side) => side.tokens.slice(0, 400).map((_, at) => shorten(nameOf(side, at), 26));
    const parts = (ctx, width) => {
      const {queries, keys} = local.now;
      const lists = [short(keys), short(queries)];
      const size = typeFor(ctx, lists, width - 16);
      const [above, below] = lists.map((words) => arranged(ctx, words, width - 16, size));
      return {above, below, size, gap: Math.max(90, Math.min(width / 2, app.room() - above.height - below.height - 50))};
    };
    const paint = (ctx, width) => {
      const {now} = local;
      if (!now) return;
      const {above, below, gap, size} = parts(ctx, width);
      const LINE = lineOf(size);
      local.line = LINE;
      const {soft, ink, pin, card, line} = theme();
      const top = 26;
      const bottom = top + above.height + gap;
      write(ctx, titled("source", now.map.keys), 8, 10, {size: 12, colour: soft});
      const centre = ({x, width: wide}) => 8 + x + wide / 2;
      const cursor = local.hover || {query: now.state.query};
      local.boxes = [];
      if (now.weights) {
        for (let t = 0; t < below.boxes.length; t++) {
          for (let s = 0; s < above.boxes.length; s++) {
            const value = now.weights.at(t, s);
            const share = Math.abs(value) / (now.map.normalised ? 1 : now.weights.greatest);
            if (share < local.least) continue;
            const chosen = cursor.query === t || cursor.key === s;
            ctx.globalAlpha = chosen ? 1 : local.hover ? 0.12 : 0.4;
            ctx.strokeStyle = chosen ? pin : css(colourOf(Math.max(share, 0.35), 1, now.state, now.weights.signed));
            ctx.lineWidth = 0.8 + 6 * share;
            const [x1, y1, x2, y2] = [centre(above.boxes[s]), top + above.boxes[s].y + LINE - 3, centre(below.boxes[t]), bottom + below.boxes[t].y + 3];
            ctx.beginPath();
            ctx.moveTo(x1, y1);
            ctx.bezierCurveTo(x1, (y1 + y2) / 2, x2, (y1 + y2) / 2, x2, y2);
            ctx.stroke();
          }
        }
      }
      ctx.globalAlpha = 1;
      const words = (row, y, kind) => row.boxes.forEach((box, at) => {
        const strong = cursor[kind] === at;
        ctx.fillStyle = card;
        ctx.fillRect(4 + box.x, y + box.y + 4, box.width + 8, LINE - 8);
        ctx.strokeStyle = strong ? pin : line;
        ctx.lineWidth = strong ? 2 : 1;
        ctx.strokeRect(4.5 + box.x, y + box.y + 4.5, box.width + 7, LINE - 9);
        write(ctx, box.text, 8 + box.x, y + box.y + LINE / 2, {size, colour: strong ? pin : tokenColour(kind === "key" ? now.keys : now.queries, at, ink), width: box.width + 1});
        local.boxes.push({kind, at, x: 4 + box.x, y: y + box.y, width: box.width + 8});
      });
      words(above, top, "key");
      words(below, bottom, "query");
      write(ctx, titled("target", now.map.queries), 8, bottom + below.height + 10, {size: 12, colour: soft});
    };
    const under = (x, y) => local.boxes.find((box) => x >= box.x && x <= box.x + box.width && y >= box.y && y <= box.y + local.line);
    const made = surface(app, {
      label: "Alignment. The left and right arrow keys choose a target word.", paint, title: "alignment of two sentences",
      height: (width) => {
        if (!local.now) return 1;
        const {above, below, gap} = parts(made.canvas.getContext("2d"), width);
        return above.height + below.height + gap + 50;
      },
      move: (dx, dy) => app.pick({query: app.cursor().query + dx + dy}),
      ends: (way) => app.pick({query: way < 0 ? 0 : local.now.map.shape[0] - 1}),
      pin: () => app.set({view: "matrix"}),
      point: (x, y, kind) => {
        const box = kind === "leave" ? null : under(x, y);
        if (kind === "click" && box) app.pick(box.kind === "query" ? {query: box.at, way: "from"} : {key: box.at, way: "to"});
        const next = box ? {[box.kind]: box.at} : null;
        if (JSON.stringify(next) !== JSON.stringify(local.hover)) { local.hover = next; made.draw(); }
      },
    });
    const outputs = el("div", {class: "others"});
    const update = (now) => {
      local.now = now;
      made.draw();
      // Other outputs for the same source, for example the hypotheses of a beam search.
      const alternatives = app.session.frames.map((frame, at) => ({frame, at})).filter(({frame}) => frame.answer && frame.maps.some((one) => one.name === now.map.name && same(frame.sides[one.keys], now.keys)));
      outputs.replaceChildren(...(alternatives.length < 2 ? [] : [el("h3", {}, "Alternative outputs"), el("ul", {}, alternatives.map(({frame, at}) => {
        const act = () => app.set({frame: at});
        return el("li", {}, el("button", {type: "button", class: "quiet", "aria-pressed": String(at === now.state.frame), on: {click: act}}, frame.label), " ", el("span", {dir: "auto"}, frame.answer));
      }))]));
    };
    const data = () => {
      const {weights, queries, keys} = local.now;
      const rows = queries.tokens.flatMap((token, t) => keys.tokens.map((other, s) => [token, other, weights.at(t, s)]).filter((one) => one[2] > 0.001));
      return {columns: ["written", "read", "weight"], rows};
    };
    return {element: el("div", {}, made.element, outputs), controls: [least], update, data};
  },
};
