// A beam search as a tree: each column is a step, each branch a token. Hypotheses that were kept are dark,
// pruned ones pale, and the output is highlighted.
import {el, slider, table, tick} from "./elements.js";
import {theme} from "./colours.js";
import {surface, write} from "./surface.js";
import {number, shorten, shown} from "./tokens.js";

const HIGH = 32;
const WIDE = 108; // pixels of a step: the least, and the largest if there is room
const LARGEST = 220;

// Returns the nodes with their depth, children and line; leaves are on consecutive lines.
export function treeLayout(beam) {
  const nodes = beam.map((leaf, at) => ({...leaf, at, children: [], depth: 0, line: 0}));
  for (const node of nodes) {
    if (node.parent === null || !nodes[node.parent] || node.parent >= node.at) continue;
    nodes[node.parent].children.push(node);
    node.depth = nodes[node.parent].depth + 1;
  }
  let line = 0;
  const order = [];
  // Parents come before their children in the list; a stack avoids recursion in deep searches.
  const stack = nodes.filter((node) => node.parent === null).reverse();
  while (stack.length) {
    const node = stack.pop();
    order.push(node);
    if (!node.children.length) node.line = line++;
    stack.push(...[...node.children].sort((a, b) => a.log_probability - b.log_probability));
  }
  for (const node of order.reverse()) if (node.children.length) node.line = node.children.reduce((sum, one) => sum + one.line, 0) / node.children.length;
  return {nodes, lines: line, depth: nodes.reduce((most, node) => Math.max(most, node.depth), 0)};
}

// Returns the part of a tree that is shown: the kept nodes, or all, of the first `steps` steps.
export function visibleTree(beam, {all, steps}) {
  const positions = new Map(), nodes = [], depths = [];
  beam.forEach((leaf, at) => {
    const above = leaf.parent === null ? null : positions.get(leaf.parent);
    const depth = leaf.parent === null ? 0 : depths[above] + 1;
    if (above === undefined || depth > steps || !(all || leaf.continued || leaf.chosen)) return;
    positions.set(at, nodes.length);
    depths.push(depth);
    nodes.push({...leaf, parent: above});
  });
  return nodes;
}

function sentenceOf(nodes, node) {
  const tokens = [];
  for (let one = node; one; one = one.parent === null ? null : nodes[one.parent]) tokens.unshift(shown(one.token));
  return tokens.join(" ");
}

export const beams = {
  id: "beams",
  title: "Beam search",
  lead: "The hypotheses of the beam search as a tree. Each step to the right adds a token; pale hypotheses were pruned, and the highlighted path is the output. The number is the log-probability of the tokens so far.",
  free: true,
  fits: (session, state) => (session.frames[state.frame]?.beam.length || 0) > 1,
  make(app) {
    const local = {now: null, tree: null, cursor: 0, beam: null, all: false, steps: Infinity};
    const controls = el("div", {class: "row"});
    const status = el("p", {class: "tip", "aria-live": "polite", dir: "auto"});
    const list = el("div", {});
    const location = (node, width) => [8 + node.depth * Math.max(WIDE, Math.min(LARGEST, width / (local.tree.depth + 1))), 14 + node.line * HIGH];
    const paint = (ctx, width) => {
      if (!local.tree) return;
      const {ink, soft, line, pin} = theme();
      const {nodes} = local.tree;
      const ordered = [...nodes].sort((a, b) => a.chosen - b.chosen || a.continued - b.continued);
      for (const node of ordered) {
        if (node.parent === null) continue;
        const [x1, y1] = location(nodes[node.parent], width);
        const [x2, y2] = location(node, width);
        ctx.strokeStyle = node.chosen ? pin : node.continued ? soft : line;
        ctx.lineWidth = node.chosen ? 2.5 : 1.2;
        ctx.beginPath();
        const begin = x1 + Math.min(70, 8 + 7.5 * [...shorten(nodes[node.parent].token, 14)].length);
        ctx.moveTo(begin, y1);
        ctx.bezierCurveTo((begin + x2) / 2, y1, (begin + x2) / 2, y2, x2 - 6, y2);
        ctx.stroke();
      }
      for (const node of ordered) {
        const [x, y] = location(node, width);
        ctx.globalAlpha = node.continued || node.chosen ? 1 : 0.75;
        if (node.at === local.cursor) { ctx.strokeStyle = pin; ctx.lineWidth = 2; ctx.strokeRect(x - 5, y - 12, 80, 29); }
        write(ctx, shorten(node.token, 14), x, y - 3, {size: 13, colour: node.chosen ? pin : node.continued ? ink : soft, bold: node.chosen, width: 70});
        write(ctx, number(node.log_probability), x, y + 10, {size: 10.5, colour: soft, width: 70});
        ctx.globalAlpha = 1;
      }
    };
    const choose = (at) => {
      local.cursor = at;
      const node = local.tree.nodes[at];
      status.textContent = `${sentenceOf(local.tree.nodes, node)} (${number(node.log_probability)}${node.chosen ? ", output" : node.continued ? ", kept" : ", pruned"})`;
      made.draw();
    };
    const move = (dx, dy) => {
      const {nodes} = local.tree;
      const current = nodes[local.cursor];
      if (dx < 0 && current.parent !== null) choose(current.parent);
      else if (dx > 0 && current.children.length) choose((current.children.find((one) => one.chosen) || current.children[0]).at);
      else if (dy) {
        const row = nodes.filter((one) => one.depth === current.depth).sort((a, b) => a.line - b.line);
        choose(row[Math.max(0, Math.min(row.length - 1, row.indexOf(current) + dy))].at);
      }
    };
    const made = surface(app, {
      label: "Tree of the beam search. The right and left arrow keys follow a path, up and down choose another node of the same step.", paint, move, title: "beam search tree",
      height: () => (local.tree ? local.tree.lines * HIGH + 16 : 1),
      ends: (way) => choose(way < 0 ? 0 : local.tree.nodes.findLast((one) => one.chosen)?.at ?? 0), pin: () => {},
      point: (x, y, kind) => {
        if (kind !== "click") return;
        const target = local.tree.nodes.find((node) => { const [a, b] = location(node, made.size.width); return x >= a - 4 && x <= a + 74 && Math.abs(y - b) <= 11; });
        if (target) choose(target.at);
      },
    });
    const grow = () => {
      local.tree = treeLayout(visibleTree(local.beam, local));
      made.element.style.minWidth = `${(local.tree.depth + 1) * WIDE + 24}px`;
      requestAnimationFrame(() => choose(local.tree.nodes.findLast((one) => one.chosen)?.at ?? 0));
    };
    const update = (now) => {
      if (local.beam !== now.frame.beam) {
        local.beam = now.frame.beam;
        const {nodes, depth} = treeLayout(now.frame.beam);
        local.steps = depth;
        controls.replaceChildren(
          slider("Steps", 1, Math.max(1, depth), 1, depth, String, (steps) => { local.steps = steps; grow(); }),
          tick("Show pruned hypotheses", local.all, (all) => { local.all = all; grow(); }),
        );
        const ended = nodes.filter((one) => !one.children.length && (one.continued || one.chosen)).sort((a, b) => b.chosen - a.chosen || b.log_probability - a.log_probability).slice(0, 12);
        list.replaceChildren(table("Hypotheses at their last step, the output first", ["Hypothesis", "Log-probability"], ended.map((one) => [sentenceOf(nodes, one), number(one.log_probability)])));
        grow();
      }
      local.now = now;
      made.draw();
    };
    const data = () => ({
      columns: ["node", "parent", "token", "log probability", "continued", "chosen"],
      rows: local.beam.map((leaf, at) => [at + 1, leaf.parent === null ? null : leaf.parent + 1, leaf.token, leaf.log_probability, leaf.continued, leaf.chosen]),
    });
    const scroll = el("div", {class: "scroller", role: "region", "aria-label": "Tree"}, made.element);
    return {element: el("div", {}, controls, status, scroll, list), update, data};
  },
};
