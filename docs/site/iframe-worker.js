// Material searches in a Worker, which browsers refuse to a page that is opened from a disk; there it runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.body.appendChild(document.createElement("iframe"));
      frame.hidden = true;
      const inside = this.inside = frame.contentWindow;
      inside.document.open();
      inside.document.write("<body>");
      inside.document.close();
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", {data}));
      const script = inside.document.createElement("script");
      this.started = new Promise(resolve => { script.onload = resolve; });
      script.src = url;
      inside.document.body.append(script);
    }

    postMessage(data) {
      this.started.then(() => this.inside.dispatchEvent(new MessageEvent("message", {data})));
    }
  };
}
