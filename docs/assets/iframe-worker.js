// Browsers start no workers for pages opened from a disk. The site's search is a worker, so there a hidden frame
// with a window of its own takes the worker's place: messages to it become events of that window, and what the
// window posts becomes events of the worker. Served pages keep the browser's workers.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(script) {
      super();
      this.address = new URL(script, location.href).href;
      this.waiting = [];
      document.addEventListener("DOMContentLoaded", () => this.start());
      if (document.readyState !== "loading") this.start();
    }

    start() {
      if (this.frame) return;
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      const load = (address) => new Promise((done, failed) => {
        const element = inside.document.createElement("script");
        Object.assign(element, { src: address, async: false, onload: done, onerror: failed });
        inside.document.body.append(element);
      });
      inside.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        if (this.onmessage) this.onmessage(event);
      };
      inside.importScripts = (...addresses) => Promise.all(addresses.map(load));
      load(this.address).then(() => {
        this.inside = inside;
        this.waiting.splice(0).forEach((data) => this.postMessage(data));
      });
    }

    postMessage(data) {
      if (!this.inside) this.waiting.push(data);
      else this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data }));
    }

    terminate() {
      if (this.frame) this.frame.remove();
    }
  };
  window.Worker = window.IFrameWorker;
}
