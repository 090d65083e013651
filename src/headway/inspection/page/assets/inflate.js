// Decodes blocks (base64 of gzip) in a worker, so that the page stays responsive. The worker is loaded
// from a blob, because a page that was opened from a file cannot load one from an address.

function work() {
  const bytesOf = (text) => {
    if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
    const raw = atob(text);
    const bytes = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
    return bytes;
  };
  self.onmessage = async ({data: {job, packed}}) => {
    try {
      const bytes = typeof packed === "string" ? bytesOf(packed) : packed;
      const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
      const whole = new Uint8Array(await new Response(stream).arrayBuffer());
      self.postMessage({job, whole}, [whole.buffer]);
    } catch (error) {
      self.postMessage({job, why: String(error)});
    }
  };
}

// inflater()(text or bytes) -> Promise<Uint8Array>
export function inflater() {
  const waiting = new Map();
  let worker = null;
  let jobs = 0;
  const start = () => {
    const address = URL.createObjectURL(new Blob([`(${work})();`], {type: "text/javascript"}));
    worker = new Worker(address);
    worker.onmessage = ({data: {job, whole, why}}) => {
      const {done, fail} = waiting.get(job);
      waiting.delete(job);
      if (whole) done(whole);
      else fail(new Error(`a data block of this page cannot be read (${why}); write the page again`));
    };
  };
  return (packed) => new Promise((done, fail) => {
    if (!worker) start();
    waiting.set(++jobs, {done, fail});
    worker.postMessage({job: jobs, packed}, typeof packed === "string" ? [] : [packed.buffer]);
  });
}
