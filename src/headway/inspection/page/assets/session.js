// Access to the data of one document. Layers are loaded when they are first shown, and the least recently
// used ones are dropped from memory. Methods never wait: they return null for data that is not loaded
// yet, and `ready` is called when it is.
import {Weights, meanOver, pooled} from "./weights.js";
import {joinedWeights} from "./words.js";

const pause = () => new Promise((done) => setTimeout(done));
const MEMORY = 160 * 2 ** 20; // bytes of weights

export class Session {
  constructor(source, header, ready, failed) {
    if (header.format !== "headway-inspection" || header.version !== 1) {
      throw new Error(`this page reads documents of format headway-inspection, version 1, but this one has format ${header.format}, version ${header.version}; it was written by another version of Headway`);
    }
    Object.assign(this, {source, header, ready, failed});
    this.loaded = new Map(); // block or "mean ..." -> {value, bytes}
    this.loading = new Set();
  }

  get frames() {
    return this.header.frames;
  }

  // Whether a server can run the model on other inputs.
  get live() {
    return this.source.live && this.header.live;
  }

  // Returns the map of a frame that a state selects.
  map(frame, state) {
    const maps = this.frames[frame]?.maps || [];
    const named = maps.filter((one) => one.name === state.map);
    return named.find((one) => one.measure === state.measure) || named[0] || maps[0] || null;
  }

  bytes(id) {
    return this.cached(id, async () => {
      const value = await this.source.block(id);
      return {value, bytes: value.length};
    });
  }

  floats(id) {
    const bytes = this.bytes(id);
    return bytes && new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
  }

  // Returns the weights of one head; head -1 is the mean over all heads of the layer.
  weights(map, layer, head) {
    const codes = this.bytes(map.blocks[layer]);
    if (!codes) return null;
    const [rows, columns] = map.shape;
    const id = map.blocks[layer];
    if (head >= 0) {
      const part = codes.subarray(head * rows * columns, (head + 1) * rows * columns);
      return this.once(`${id} head ${head}`, () => new Weights(part, rows, columns, map.coding));
    }
    return this.cached(`${id} mean`, async () => {
      const value = await meanOver(codes, map.heads, rows, columns, map.coding, pause);
      return {value, bytes: rows * columns};
    });
  }

  // Returns the weights of one head between words instead of tokens. units: those of queries and keys.
  joined(map, layer, head, queries, keys) {
    const weights = this.weights(map, layer, head);
    return weights && this.once(`${map.blocks[layer]} head ${head} words`, () => joinedWeights(weights, queries, keys));
  }

  // Returns the weights max-pooled by `factor` in both directions.
  overview(map, layer, head, factor) {
    const weights = this.weights(map, layer, head);
    return weights && this.cached(`${map.blocks[layer]} head ${head} by ${factor}`, async () => {
      const value = await pooled(weights, factor, pause);
      return {value, bytes: value.codes.length};
    });
  }

  once(key, make) {
    if (!this.loaded.has(key)) this.loaded.set(key, {value: make(), bytes: 0});
    return this.loaded.get(key).value;
  }

  cached(key, fetch) {
    const entry = this.loaded.get(key);
    if (entry) {
      this.loaded.delete(key);
      this.loaded.set(key, entry);
      return entry.value;
    }
    if (!this.loading.has(key)) {
      this.loading.add(key);
      fetch().then(
        (result) => { this.loading.delete(key); this.keep(key, result); this.ready(); },
        (error) => this.failed(error),
      );
    }
    return null;
  }

  keep(key, result) {
    this.loaded.set(key, result);
    let total = [...this.loaded.values()].reduce((sum, one) => sum + one.bytes, 0);
    for (const [old, one] of this.loaded) {
      if (total <= MEMORY || old === key) break;
      this.loaded.delete(old);
      for (const part of [...this.loaded.keys()]) if (part.startsWith(`${old} head`)) this.loaded.delete(part);
      total -= one.bytes;
    }
  }
}
