// A page that was opened as a file may start no worker, and the search is one: here it runs in a frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      const base = new URL(url, location.href);
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      const load = (address) => new Promise((done, failed) => {
        const script = frame.contentDocument.createElement("script");
        script.src = address;
        script.onload = done;
        script.onerror = () => failed(new Error(address));
        frame.contentDocument.body.append(script);
      });
      this.inside.importScripts = (...addresses) =>
        addresses.reduce((before, address) => before.then(() => load(new URL(address, base).href)), Promise.resolve());
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      load(base.href).then(() => {
        const all = this.waiting;
        this.waiting = null;
        all.forEach((data) => this.postMessage(data));
      });
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.inside.dispatchEvent(new MessageEvent("message", { data }));
    }

    terminate() {
      this.inside.frameElement.remove();
    }
  };
}
