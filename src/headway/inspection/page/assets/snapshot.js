// Draws a view as it is on the screen (boxes, borders, text, images, canvases) into a canvas (PNG) or
// into SVG, in the same way for all views.
import {theme} from "./colours.js";
import {SvgContext} from "./svg.js";

const CLEAR = "rgba(0, 0, 0, 0)";
const MOST = 4000; // text nodes that are drawn

const MARGIN = 16;

// Returns the rectangle of a view with a margin.
function around(element) {
  const {left, top, width, height} = element.getBoundingClientRect();
  return new DOMRect(left - MARGIN, top - MARGIN, width + 2 * MARGIN, height + 2 * MARGIN);
}

export function asSvg(element) {
  const box = around(element);
  const ctx = new SvgContext(Math.ceil(box.width), Math.ceil(box.height));
  drawAll(ctx, element, box);
  return new Blob([ctx.toString()], {type: "image/svg+xml"});
}

export async function asPng(element) {
  const box = around(element);
  const sharp = Math.min(2, Math.sqrt(3e7 / Math.max(1, box.width * box.height)));
  const canvas = document.createElement("canvas");
  canvas.width = Math.ceil(box.width * sharp);
  canvas.height = Math.ceil(box.height * sharp);
  const ctx = canvas.getContext("2d");
  ctx.scale(sharp, sharp);
  drawAll(ctx, element, box);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

function drawAll(ctx, element, box) {
  ctx.fillStyle = theme().paper;
  ctx.fillRect(0, 0, box.width, box.height);
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT);
  let texts = 0;
  for (let node = walker.currentNode; node; node = walker.nextNode()) {
    if (node.nodeType === Node.TEXT_NODE) { if (texts++ < MOST) letters(ctx, node, box); }
    else if (node.checkVisibility?.() !== false) boxed(ctx, node, box);
  }
}

function boxed(ctx, element, outer) {
  const box = element.getBoundingClientRect();
  if (!box.width || !box.height) return;
  const [x, y] = [box.left - outer.left, box.top - outer.top];
  const style = getComputedStyle(element);
  if (element.tagName !== "SELECT" && style.backgroundColor !== CLEAR) {
    ctx.fillStyle = style.backgroundColor;
    for (const one of element.getClientRects()) ctx.fillRect(one.left - outer.left, one.top - outer.top, one.width, one.height);
  }
  if (element.repaint) {
    ctx.save();
    ctx.translate(x, y);
    element.repaint(ctx);
    ctx.restore();
  } else if (element.tagName === "IMG" || element.tagName === "CANVAS") {
    ctx.drawImage(element, x, y, box.width, box.height);
  }
  const width = parseFloat(style.borderBottomWidth);
  if (width && style.borderBottomStyle !== "none") {
    ctx.fillStyle = style.borderBottomColor;
    ctx.fillRect(x, y + box.height - width, box.width, width);
  }
}

function letters(ctx, node, outer) {
  const text = node.textContent.trim();
  const parent = node.parentElement;
  if (!text || parent.closest("select, canvas, .unseen") || parent.checkVisibility?.() === false) return;
  const style = getComputedStyle(parent);
  const range = document.createRange();
  ctx.font = `${Number(style.fontWeight) >= 600 ? "600 " : ""}${parseFloat(style.fontSize)}px ${style.fontFamily}`;
  ctx.fillStyle = style.color;
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  // Lines are broken as in the browser: a word with another y begins a new line.
  let line = null;
  const flush = () => { if (line) ctx.fillText(line.text.trimEnd(), line.x, line.y); };
  for (const {0: word, index} of node.textContent.matchAll(/\S+\s*/gu)) {
    range.setStart(node, index);
    range.setEnd(node, index + word.length);
    const box = range.getBoundingClientRect();
    if (!box.height) continue;
    const y = box.top - outer.top + box.height / 2;
    if (line && Math.abs(line.y - y) < 3) { line.text += word; line.x = Math.min(line.x, box.left - outer.left); }
    else { flush(); line = {text: word, x: box.left - outer.left, y}; }
  }
  flush();
}
