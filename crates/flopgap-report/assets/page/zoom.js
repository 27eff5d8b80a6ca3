// Timelines: wider at a click, or with the wheel and Ctrl; letters keep their size.
(() => {
  const MOST = 64;
  for (const figure of document.querySelectorAll(".fg-zoom")) {
    const outer = figure.querySelector(".fg-scroll");
    const inner = figure.querySelector(".fg-inner");
    let zoom = 1;
    // What lies at `x` pixels from the left edge stays there.
    function zoomTo(wanted, x) {
      const place = (outer.scrollLeft + x) / inner.clientWidth;
      zoom = Math.min(Math.max(wanted, 1), MOST);
      inner.style.width = `${zoom * 100}%`;
      outer.scrollLeft = place * inner.clientWidth - x;
      update();
    }
    const button = (text, label, change) => {
      const made = document.createElement("button");
      made.type = "button";
      made.textContent = text;
      made.title = label;
      made.setAttribute("aria-label", label);
      made.addEventListener("click", () => zoomTo(change(), outer.clientWidth / 2));
      return made;
    };
    const closer = button("+", "Zoom in (Ctrl and wheel)", () => zoom * 2);
    const wider = button("−", "Zoom out", () => zoom / 2);
    const all = button("All", "Show everything", () => 1);
    function update() {
      closer.disabled = zoom >= MOST;
      wider.disabled = all.disabled = zoom <= 1;
      inner.style.setProperty("--fg-scrolled", `${outer.scrollLeft}px`);
    }
    const bar = document.createElement("div");
    bar.className = "fg-buttons";
    bar.append(wider, closer, all);
    figure.append(bar);
    outer.addEventListener("scroll", update, { passive: true });
    outer.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      zoomTo(zoom * 2 ** (-event.deltaY / 200), event.clientX - outer.getBoundingClientRect().left);
    }, { passive: false });
    update();
  }
})();
