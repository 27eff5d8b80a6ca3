"use strict";
// How readers move the surface: the mouse turns it, everything else leaves the page free to scroll. `home` is called for the view
// of the beginning: { eye, size }.
function surfaceCamera(plot, home) {
  const scene = () => plot._fullLayout?.scene;
  const hasSurface = () => Boolean(scene()?._scene);
  const eye = () => scene()._scene.getCamera().eye;

  function turn(around, up) {
    const { x, y, z } = eye();
    const length = Math.hypot(x, y, z);
    const across = Math.atan2(y, x) + around;
    const height = Math.min(Math.max(Math.asin(z / length) + up, -1.5), 1.5);
    const flat = length * Math.cos(height);
    move({ x: flat * Math.cos(across), y: flat * Math.sin(across), z: length * Math.sin(height) });
  }
  function zoom(factor) {
    const { x, y, z } = scene().aspectratio;
    const limited = Math.min(Math.max(x * factor, 0.2), 20) / x;
    Plotly.relayout(plot, { "scene.aspectratio": { x: x * limited, y: y * limited, z: z * limited } });
  }
  const move = (to) => Plotly.relayout(plot, { "scene.camera": { ...scene()._scene.getCamera(), eye: to } });
  function reset() {
    const { camera, size } = home();
    Plotly.relayout(plot, { "scene.camera": camera, "scene.aspectratio": { x: size, y: size, z: 0.73 * size } });
  }

  // The plotting code takes every turn of the wheel and every finger; it sees those alone that are meant for it.
  plot.addEventListener("wheel", (event) => {
    const asked = event.ctrlKey || event.metaKey;
    if (asked && !hasSurface()) return;
    event.stopImmediatePropagation();
    if (!asked) return;
    event.preventDefault();
    zoom(2 ** (-event.deltaY / 300));
  }, { capture: true, passive: false });

  let fingers = null;
  const middle = ([a, b]) => ({
    x: (a.clientX + b.clientX) / 2, y: (a.clientY + b.clientY) / 2, apart: Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY),
  });
  for (const kind of ["touchstart", "touchmove", "touchend", "touchcancel"]) {
    plot.addEventListener(kind, (event) => {
      if (!hasSurface() || event.target.closest(".modebar")) return;
      event.stopImmediatePropagation();
      if (event.touches.length !== 2) { fingers = null; return; }
      event.preventDefault();
      const now = middle(event.touches);
      if (fingers && kind === "touchmove") {
        turn((fingers.x - now.x) / 120, (now.y - fingers.y) / 120);
        if (fingers.apart > 0 && now.apart > 0) zoom(now.apart / fingers.apart);
      }
      fingers = now;
    }, { capture: true, passive: false });
  }

  plot.addEventListener("dblclick", (event) => {
    if (hasSurface() && !event.target.closest(".modebar")) reset();
  });

  const STEP = Math.PI / 24;
  const KEYS = {
    ArrowLeft: () => turn(-STEP, 0), ArrowRight: () => turn(STEP, 0), ArrowUp: () => turn(0, STEP), ArrowDown: () => turn(0, -STEP),
    "+": () => zoom(1.2), "=": () => zoom(1.2), "-": () => zoom(1 / 1.2), 0: reset, Home: reset,
  };
  plot.addEventListener("keydown", (event) => {
    const action = KEYS[event.key];
    if (!action || event.target !== plot || !hasSurface() || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  });
}
