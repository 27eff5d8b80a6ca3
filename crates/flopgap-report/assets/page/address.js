"use strict";
// What a reader has opened, sorted and zoomed to stands in the address: a reload or a link shows the same.
const address = (() => {
  // Browsers refuse addresses that change at every frame.
  const WAIT = 150;
  const read = () => new URLSearchParams(location.hash.slice(1));
  const shows = [];
  let values = read();
  let timer = 0;

  function write() {
    const text = values.toString();
    try {
      history.replaceState(history.state, "", `${location.href.split("#")[0]}${text && `#${text}`}`);
    } catch {
      // A page within another one may have no address of its own.
    }
  }
  // What stands under a name; nothing for null.
  function set(name, value) {
    if (value === values.get(name)) return;
    if (value === null) values.delete(name);
    else values.set(name, value);
    clearTimeout(timer);
    timer = setTimeout(write, WAIT);
  }
  // `show` shows what the address says under a name, at once and whenever it is changed; null where it says nothing.
  function keep(name, show) {
    shows.push(() => show(values.get(name)));
    if (values.has(name)) show(values.get(name));
  }
  addEventListener("hashchange", () => {
    clearTimeout(timer);
    values = read();
    for (const show of shows) show();
  });
  return { set, keep };
})();

// Parts of waterfalls.
(() => {
  const parts = [...document.querySelectorAll("details.fall")];
  const open = () => parts.flatMap((part, n) => (part.open ? [n] : [])).join(".");
  for (const part of parts) part.addEventListener("toggle", () => address.set("open", open() || null));
  address.keep("open", (value) => {
    const named = (value ?? "").split(".");
    parts.forEach((part, n) => { part.open = named.includes(String(n)); });
  });
})();
