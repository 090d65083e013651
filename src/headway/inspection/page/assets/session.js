// What one document holds, ready to be drawn: layers are fetched when they are first shown, and the
// oldest are let go when too many are held. Asking is never waiting: what is not there yet is null,
// and `ready` is called when it has come.
import {Weights, meanOver, pooled} from "./weights.js";

const pause = () => new Promise((done) => setTimeout(done));
const HELD = 160 * 2 ** 20; // bytes of weights

export class Session {
  constructor(source, header, ready, failed) {
    if (header.format !== "headway-inspection" || header.version !== 1) {
      throw new Error("this page cannot read that document: another format, or another version");
    }
    Object.assign(this, {source, header, ready, failed});
    this.kept = new Map(); // block or "mean ..." -> {value, bytes}
    this.coming = new Set();
  }

  get frames() {
    return this.header.frames;
  }

  // Whether there is a model that can be asked.
  get live() {
    return this.source.live && this.header.live;
  }

  // The map of a frame that a state means.
  map(frame, state) {
    const maps = this.frames[frame]?.maps || [];
    const named = maps.filter((one) => one.name === state.map);
    return named.find((one) => one.measure === state.measure) || named[0] || maps[0] || null;
  }

  bytes(id) {
    return this.held(id, async () => {
      const value = await this.source.block(id);
      return {value, bytes: value.length};
    });
  }

  floats(id) {
    const bytes = this.bytes(id);
    return bytes && new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
  }

  // One head's weights, or of head -1 the mean over all of its layer.
  weights(map, layer, head) {
    const codes = this.bytes(map.blocks[layer]);
    if (!codes) return null;
    const [rows, columns] = map.shape;
    const id = map.blocks[layer];
    if (head >= 0) {
      const part = codes.subarray(head * rows * columns, (head + 1) * rows * columns);
      return this.once(`${id} head ${head}`, () => new Weights(part, rows, columns, map.coding));
    }
    return this.held(`${id} mean`, async () => {
      const value = await meanOver(codes, map.heads, rows, columns, map.coding, pause);
      return {value, bytes: rows * columns};
    });
  }

  // The same, `factor` times coarser each way.
  overview(map, layer, head, factor) {
    const weights = this.weights(map, layer, head);
    return weights && this.held(`${map.blocks[layer]} head ${head} by ${factor}`, async () => {
      const value = await pooled(weights, factor, pause);
      return {value, bytes: value.codes.length};
    });
  }

  once(key, make) {
    if (!this.kept.has(key)) this.kept.set(key, {value: make(), bytes: 0});
    return this.kept.get(key).value;
  }

  held(key, fetch) {
    const found = this.kept.get(key);
    if (found) {
      this.kept.delete(key);
      this.kept.set(key, found);
      return found.value;
    }
    if (!this.coming.has(key)) {
      this.coming.add(key);
      fetch().then(
        (got) => { this.coming.delete(key); this.keep(key, got); this.ready(); },
        (error) => this.failed(error),
      );
    }
    return null;
  }

  keep(key, got) {
    this.kept.set(key, got);
    let total = [...this.kept.values()].reduce((sum, one) => sum + one.bytes, 0);
    for (const [old, one] of this.kept) {
      if (total <= HELD || old === key) break;
      this.kept.delete(old);
      for (const part of [...this.kept.keys()]) if (part.startsWith(`${old} head`)) this.kept.delete(part);
      total -= one.bytes;
    }
  }
}
