// Colour scales. Viridis (Smith and van der Walt 2015) and cividis (Nunez et al. 2018) are perceptually
// uniform and readable with colour blindness. A weight of 0 has the colour of the page, so that sparse
// maps are calm; large weights are dark on a light page and bright on a dark page.

const SCALES = {
  viridis: "440154 482475 414487 355f8d 2a788e 21918c 22a884 44bf70 7ad151 bddf26 fde725",
  cividis: "00224e 123570 3b496c 575d6d 707173 8a8678 a59c74 c3b369 e1cc55 fee838",
};
const SIGNED = {light: ["0b4a8f", "5f9bd1", "e0812e", "8f3d02"], dark: ["8cc4ff", "3273b5", "b8631b", "ffb66e"]};

const parts = (hex) => [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16));
const mix = (a, b, share) => a.map((one, at) => one + (b[at] - one) * share);
const along = (stops, share) => {
  const position = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const low = Math.min(Math.floor(position), stops.length - 2);
  return mix(stops[low], stops[low + 1], position - low);
};

let now = null;

export function forgetTheme() {
  now = null;
}

// The page's own colours, read from its style sheet.
export function theme() {
  if (now) return now;
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(`--${name}`).trim();
  const names = ["paper", "card", "ink", "soft", "line", "accent", "pin", "masked", "wash", "output", "less"];
  now = Object.fromEntries(names.map((name) => [name, read(name)]));
  now.dark = lightness(parts(now.paper.slice(1))) < 0.5;
  now.ramps = {};
  return now;
}

// 256 colours [r, g, b] from 0 to the maximum; of a signed scale from minimum to maximum.
export function ramp(name, signed) {
  const {ramps, paper, dark} = theme();
  const key = `${name} ${signed}`;
  if (!ramps[key]) {
    const ground = parts(paper.slice(1));
    const stops = SCALES[name].split(" ").map(parts);
    if (!dark) stops.reverse();
    const ends = SIGNED[dark ? "dark" : "light"].map(parts);
    const both = [ends[0], ends[1], ground, ends[2], ends[3]];
    const one = (share) => mix(ground, along(stops, share), Math.min(1, share / 0.22));
    ramps[key] = Array.from({length: 256}, (_, at) => (signed ? along(both, at / 255) : one(at / 255)).map(Math.round));
  }
  return ramps[key];
}

// The colour of one head of a layer: hues around the circle, with the contrast of text.
export function headColour(head, heads) {
  const hue = Math.round((360 * head) / Math.max(1, heads) + 205) % 360;
  return theme().dark ? `hsl(${hue}, 65%, 70%)` : `hsl(${hue}, 62%, 38%)`;
}

// The colour of the name of a token: what the model generated differs from its input.
export function tokenColour(side, position, usual = theme().ink) {
  return side.generated !== null && side.generated !== undefined && position >= side.generated ? theme().output : usual;
}

export function css([r, g, b]) {
  return `rgb(${r}, ${g}, ${b})`;
}

export function packed([r, g, b]) {
  return (255 << 24 | b << 16 | g << 8 | r) >>> 0;
}

// Black or white, whichever has more contrast with a background colour.
export function inkOn(colour) {
  return lightness(colour) > 0.423 ? "#000000" : "#ffffff";
}

export function packedName(name) {
  return packed(parts(theme()[name].slice(1)));
}

function lightness(colour) {
  const linear = colour.map((one) => (one <= 10 ? one / 3295 : ((one / 255 + 0.055) / 1.055) ** 2.4));
  return Math.sqrt(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]);
}

// Position on the scale, from -1 to 1, of a fraction of the maximum. how: "linear", "sqrt" or "log".
export function stretched(share, how) {
  const size = Math.min(1, Math.abs(share));
  const far = how === "linear" ? size : how === "log" ? Math.log1p(999 * size) / Math.log(1000) : Math.sqrt(size);
  return Math.sign(share) * far;
}

export function colourOf(value, greatest, look, signed) {
  const level = stretched(greatest ? value / greatest : 0, look.scale);
  const colours = ramp(look.colours, signed);
  return colours[Math.round(signed ? 127.5 + 127.5 * level : 255 * Math.max(0, level))];
}
