// Images as the input of a model: resized with the filters of Pillow, cropped and normalised as in training.

const cubic = (x) => { // a = -0.5
  const far = Math.abs(x);
  if (far < 1) return (1.5 * far - 2.5) * far * far + 1;
  return far < 2 ? ((-0.5 * far + 2.5) * far - 4) * far + 2 : 0;
};
const sinc = (x) => (x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x));
const FILTERS = {
  box: [0.5, (x) => (x > -0.5 && x <= 0.5 ? 1 : 0)],
  bilinear: [1, (x) => Math.max(0, 1 - Math.abs(x))],
  hamming: [1, (x) => (Math.abs(x) < 1 ? sinc(x) * (0.54 + 0.46 * Math.cos(Math.PI * x)) : 0)],
  bicubic: [2, cubic],
  lanczos: [3, (x) => (Math.abs(x) < 3 ? sinc(x) * sinc(x / 3) : 0)],
};

// Resizes along the rows of an array [outer, length, inner] of bytes.
function along(data, outer, length, inner, target, [reach, filter]) {
  const scale = length / target;
  const wider = Math.max(1, scale);
  const out = new Uint8ClampedArray(outer * target * inner);
  for (let at = 0; at < target; at++) {
    const middle = (at + 0.5) * scale;
    const first = Math.max(0, Math.trunc(middle - reach * wider + 0.5));
    const last = Math.min(length, Math.trunc(middle + reach * wider + 0.5));
    const weights = Array.from({length: last - first}, (_, i) => filter((first + i - middle + 0.5) / wider));
    const total = weights.reduce((a, b) => a + b, 0);
    for (let o = 0; o < outer; o++) {
      for (let i = 0; i < inner; i++) {
        let sum = 0;
        for (let w = 0; w < weights.length; w++) sum += weights[w] * data[(o * length + first + w) * inner + i];
        out[(o * target + at) * inner + i] = Math.floor(sum / total + 0.5);
      }
    }
  }
  return out;
}

// image: {data, height, width, channels}, bytes in the order height, width, channel.
function resized({data, height, width, channels}, high, wide, how) {
  if (height === high && width === wide) return {data, height, width, channels};
  const filter = FILTERS[how];
  const across = width === wide ? data : along(data, height, width, channels, wide, filter);
  const both = height === high ? across : along(across, 1, height, wide * channels, high, filter);
  return {data: both, height: high, width: wide, channels};
}

function cropped({data, width, channels}, top, left, high, wide) {
  const out = new Uint8ClampedArray(high * wide * channels);
  for (let y = 0; y < high; y++) {
    const from = ((top + y) * width + left) * channels;
    out.set(data.subarray(from, from + wide * channels), y * wide * channels);
  }
  return {data: out, height: high, width: wide, channels};
}

function withChannels({data, height, width, channels}, wanted) {
  if (channels === wanted) return {data, height, width, channels};
  const out = new Uint8ClampedArray(height * width * wanted);
  for (let at = 0; at < height * width; at++) {
    if (wanted === 3) out.fill(data[at], 3 * at, 3 * at + 3);
    else out[at] = 0.299 * data[3 * at] + 0.587 * data[3 * at + 1] + 0.114 * data[3 * at + 2];
  }
  return {data: out, height, width, channels: wanted};
}

// Returns an image of any size in the size of a model. reader: its settings.
export function sized(image, reader) {
  const {height, width, shorter, squashed, resampling} = reader;
  const least = Math.min(image.height, image.width);
  const [down, across] = shorter ? [image.height, image.width].map((side) => Math.trunc((shorter * side) / least)) : squashed || [height, width];
  const [top, left] = [Math.floor((down - height) / 2), Math.floor((across - width) / 2)];
  return withChannels(cropped(resized(image, down, across, resampling), top, left, height, width), reader.mean.length);
}

// Returns (pixels / 255 - mean) / deviation in the order channel, height, width.
export function normalised({data, height, width, channels}, {mean, deviation}) {
  const cells = height * width;
  const values = new Float32Array(channels * cells);
  for (let channel = 0; channel < channels; channel++) {
    for (let at = 0; at < cells; at++) values[channel * cells + at] = (data[at * channels + channel] / 255 - mean[channel]) / deviation[channel];
  }
  return values;
}

// Reads an image file; transparent pixels are blended with white.
export async function pixelsOf(file) {
  const bitmap = await createImageBitmap(file);
  const context = Object.assign(document.createElement("canvas"), {width: bitmap.width, height: bitmap.height}).getContext("2d");
  context.fillStyle = "#ffffff";
  context.fillRect(0, 0, bitmap.width, bitmap.height);
  context.drawImage(bitmap, 0, 0);
  const {data} = context.getImageData(0, 0, bitmap.width, bitmap.height);
  const colours = new Uint8ClampedArray((data.length / 4) * 3);
  for (let at = 0; at < data.length / 4; at++) colours.set(data.subarray(4 * at, 4 * at + 3), 3 * at);
  return {data: colours, height: bitmap.height, width: bitmap.width, channels: 3};
}

// Returns an image as a data address.
export function addressOf(image) {
  const {data, height, width} = withChannels(image, 3);
  const canvas = Object.assign(document.createElement("canvas"), {width, height});
  const shown = new ImageData(width, height);
  for (let at = 0; at < height * width; at++) shown.data.set([...data.subarray(3 * at, 3 * at + 3), 255], 4 * at);
  canvas.getContext("2d").putImageData(shown, 0, 0);
  return canvas.toDataURL("image/png");
}
