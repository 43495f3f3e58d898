// Pages opened from a disk: browsers start no workers there, so the search's worker runs in a hidden frame instead.
"use strict";

if (location.protocol === "file:") {
  /** As much of a Worker as the search needs. The worker's own script asks for a class of this name. */
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = frame.contentWindow;
      const page = inside.document;
      page.open();
      this.ready = new Promise((resolve) => inside.addEventListener("load", resolve));
      this.inside = inside;
      this.frame = frame;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const load = (address) =>
        new Promise((resolve, reject) => {
          const script = page.createElement("script");
          Object.assign(script, { src: address, onload: resolve, onerror: reject });
          page.body.append(script);
        });
      // One after the other, as a worker loads them; the search's script waits for the promise.
      inside.importScripts = async (...addresses) => {
        for (const address of addresses) await load(address);
      };
      page.write(`<!doctype html><title>search</title><body><script src="${url}"></script>`);
      page.close();
    }

    async postMessage(data) {
      await this.ready;
      this.inside.dispatchEvent(new MessageEvent("message", { data }));
    }

    terminate() {
      this.frame.remove();
    }
  };
  window.Worker = window.IFrameWorker;
}
