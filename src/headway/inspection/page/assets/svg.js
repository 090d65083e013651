// The part of the canvas interface that the views use, written as SVG. Images and heat maps are embedded
// as PNG; lines, boxes and text stay vectors.

const escape = (text) => String(text).replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`)
  .replace(/[^\u0009\u000a\u000d\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, "\ufffd");
const short = (value) => Number(value.toFixed(2));
const ANCHORS = {left: "start", start: "start", center: "middle", right: "end", end: "end"};

export class SvgContext {
  constructor(width, height) {
    Object.assign(this, {width, height, parts: [], path: "", saved: []});
    Object.assign(this, {fillStyle: "#000", strokeStyle: "#000", lineWidth: 1, globalAlpha: 1});
    Object.assign(this, {font: "12px sans-serif", textAlign: "left", textBaseline: "alphabetic"});
    this.matrix = [1, 0, 0, 1, 0, 0];
    this.dash = [];
    this.ruler = document.createElement("canvas").getContext("2d");
  }

  add(tag, attributes, inside) {
    const moved = this.matrix.some((one, at) => one !== [1, 0, 0, 1, 0, 0][at]);
    const all = {
      ...attributes,
      ...(moved ? {transform: `matrix(${this.matrix.map(short).join(" ")})`} : {}),
      ...(this.globalAlpha < 1 ? {opacity: short(this.globalAlpha)} : {}),
    };
    const text = Object.entries(all).map(([name, value]) => ` ${name}="${escape(value)}"`).join("");
    this.parts.push(inside === undefined ? `<${tag}${text}/>` : `<${tag}${text}>${escape(inside)}</${tag}>`);
  }

  fillRect(x, y, width, height) {
    this.add("rect", {x: short(x), y: short(y), width: short(width), height: short(height), fill: this.fillStyle});
  }

  strokeRect(x, y, width, height) {
    const box = {x: short(x), y: short(y), width: short(width), height: short(height)};
    this.add("rect", {...box, fill: "none", stroke: this.strokeStyle, "stroke-width": this.lineWidth});
  }

  clearRect() {}

  beginPath() { this.path = ""; }
  moveTo(x, y) { this.path += `M${short(x)} ${short(y)}`; }
  lineTo(x, y) { this.path += `L${short(x)} ${short(y)}`; }
  bezierCurveTo(...at) { this.path += `C${at.map(short).join(" ")}`; }
  closePath() { this.path += "Z"; }
  rect(x, y, width, height) { this.path += `M${short(x)} ${short(y)}h${short(width)}v${short(height)}h${short(-width)}Z`; }

  arc(x, y, radius) {
    const r = short(radius);
    this.path += `M${short(x - radius)} ${short(y)}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`;
  }

  fill() { this.add("path", {d: this.path, fill: this.fillStyle}); }

  stroke() {
    const dash = this.dash.length ? {"stroke-dasharray": this.dash.join(" ")} : {};
    this.add("path", {d: this.path, fill: "none", stroke: this.strokeStyle, "stroke-width": short(this.lineWidth), ...dash});
  }

  setLineDash(dash) { this.dash = dash; }

  fillText(text, x, y) {
    const [, weight, size, family] = this.font.match(/^(?:(\w+) )?([\d.]+)px (.*)$/) || [null, "", 12, "sans-serif"];
    const middle = this.textBaseline === "middle" ? {"dominant-baseline": "central"} : {};
    const bold = weight ? {"font-weight": weight} : {};
    const type = {"font-size": size, "font-family": family, ...bold, ...middle};
    this.add("text", {x: short(x), y: short(y), fill: this.fillStyle, "text-anchor": ANCHORS[this.textAlign], ...type}, text);
  }

  measureText(text) {
    this.ruler.font = this.font;
    return this.ruler.measureText(text);
  }

  drawImage(image, ...at) {
    const [x, y, width, height] = at.length === 8 ? at.slice(4) : at;
    const address = image.toDataURL ? image.toDataURL("image/png") : image.src;
    const box = {x: short(x), y: short(y), width: short(width), height: short(height)};
    const style = this.imageSmoothingEnabled === false ? {style: "image-rendering:pixelated"} : {};
    this.add("image", {...box, href: address, preserveAspectRatio: "none", ...style});
  }

  save() {
    const {fillStyle, strokeStyle, lineWidth, globalAlpha, font, textAlign, textBaseline, matrix, dash} = this;
    this.saved.push({fillStyle, strokeStyle, lineWidth, globalAlpha, font, textAlign, textBaseline, matrix: [...matrix], dash});
  }

  restore() { Object.assign(this, this.saved.pop()); }

  clip() {}

  translate(x, y) {
    const [a, b, c, d, e, f] = this.matrix;
    this.matrix = [a, b, c, d, e + a * x + c * y, f + b * x + d * y];
  }

  rotate(angle) {
    const [a, b, c, d, e, f] = this.matrix;
    const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
    this.matrix = [a * cos + c * sin, b * cos + d * sin, c * cos - a * sin, d * cos - b * sin, e, f];
  }

  toString() {
    const box = `viewBox="0 0 ${this.width} ${this.height}" width="${this.width}" height="${this.height}"`;
    return `<svg xmlns="http://www.w3.org/2000/svg" ${box}>${this.parts.join("\n")}</svg>\n`;
  }
}
