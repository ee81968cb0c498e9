// Search of the site without a server: a browser starts no worker from a file, so the script of the
// worker runs in a hidden frame. The theme's offline plugin looks for this file by its name.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = inside.document.createElement("script");
      script.src = url;
      this.loaded = new Promise((resolve) => script.addEventListener("load", resolve));
      this.inside = inside;
      inside.document.body.append(script);
    }

    postMessage(data) {
      const message = new this.inside.MessageEvent("message", { data });
      this.loaded.then(() => this.inside.dispatchEvent(message));
    }
  };
}
