// The image of a side and its patches, which are labels of their tokens.

const images = new Map(); // address -> the image, or null while it is loading

// Returns the image of an address, or null; ready() is called when it is loaded.
export function imageOf(address, ready) {
  if (!images.has(address)) {
    images.set(address, null);
    const img = new Image();
    img.onload = () => { images.set(address, img); ready(); };
    img.src = address;
  }
  return images.get(address);
}

// Draws one patch, counted without the tokens before the patches, as a square; returns whether it could.
export function drawPatch(ctx, side, at, x, y, size, ready) {
  const img = imageOf(side.image, ready);
  if (!img) return false;
  const [rows, columns] = side.grid;
  const [reachHigh, reachWide] = side.reach || side.size;
  const scale = [img.naturalHeight / side.size[0], img.naturalWidth / side.size[1]];
  const [high, wide] = [(reachHigh / rows) * scale[0], (reachWide / columns) * scale[1]];
  ctx.drawImage(img, (at % columns) * wide, Math.floor(at / columns) * high, wide, high, x, y, size, size);
  return true;
}

// The position after the last patch; words may follow.
const endOf = (side) => side.num_prefix_tokens + side.grid[0] * side.grid[1];

// Whether a token of a side is a patch of an image.
export const isPatch = (side, position) => Boolean(side.grid && side.image && position >= side.num_prefix_tokens && position < endOf(side));

// The values of the patches of a side, among those of all its tokens.
export const ofPatches = (side, values) => values.subarray(side.num_prefix_tokens, endOf(side));

// Returns a small picture of a patch, for a table.
export function thumbnailOf(side, position, ready) {
  const canvas = document.createElement("canvas");
  Object.assign(canvas, {width: 48, height: 48, className: "thumbnail"});
  drawPatch(canvas.getContext("2d"), side, position - side.num_prefix_tokens, 0, 0, 48, ready);
  return canvas;
}
