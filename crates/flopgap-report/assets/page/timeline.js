// Timelines: lanes of intervals on a canvas. uPlot gives the axis, the canvas, the cursor and the selection; this draws the lanes.
//
// A column of pixels is divided among the colors as their time is. Rows of pixels are whole: what is rounded off in one column is
// owed to the next, so that the area of a color is its time, at every zoom.
(() => {
  const LANE = 20;
  const HEAD = 22;
  const AXIS = 34;
  const COLORS = 17;

  async function inflate(base64) {
    const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  // The layout is described in src/chart/timeline/encode.rs.
  function decode(data, bytes) {
    let at = 0;
    const number = () => {
      let value = 0;
      let weight = 1;
      for (;;) {
        const byte = bytes[at];
        at += 1;
        value += (byte & 0x7f) * weight;
        if (byte < 0x80) return value;
        weight *= 128;
      }
    };
    const color = Uint8Array.from(data.names, (name) => name[1]);
    function level([intervals, sums]) {
      const found = { start: new Float64Array(intervals), end: new Float64Array(intervals), name: new Uint32Array(intervals), color: new Uint8Array(intervals), sums: [] };
      for (let i = 0, end = 0; i < intervals; i += 1) {
        found.start[i] = end + number();
        end = found.start[i] + number();
        found.end[i] = end;
        found.name[i] = number();
        found.color[i] = color[found.name[i]];
      }
      for (let i = 0, place = 0; i < sums; i += 1) {
        place += number();
        found.sums.push({ start: place * data.span, color: number(), time: number(), count: number() });
      }
      return found;
    }
    const lanes = [];
    let top = 4;
    const heads = [];
    for (const row of data.rows) {
      heads.push({ row, top });
      top += HEAD;
      for (const lane of row.lanes) {
        lane.levels.forEach((size, depth) => {
          lanes.push({ row, label: depth === 0 ? lane.label : "", named: lane.label, top, ...level(size) });
          top += LANE;
        });
      }
      top += 6;
    }
    return { lanes, heads, height: top };
  }

  // The first of sorted numbers that is greater than `value`.
  function after(sorted, value) {
    let [low, high] = [0, sorted.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sorted[middle] > value) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  const UNITS = [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]];
  function duration(nanoseconds) {
    if (nanoseconds === 0) return "0";
    const [name, size] = UNITS.find((unit) => nanoseconds >= unit[1]) ?? UNITS[3];
    return `${Number((nanoseconds / size).toPrecision(4)).toLocaleString("en-US", { maximumFractionDigits: 3 })} ${name}`;
  }
  function tickLabels(splits) {
    const most = Math.max(...splits.map(Math.abs));
    const [name, size] = UNITS.find((unit) => most >= 2 * unit[1]) ?? UNITS[3];
    const step = splits.length > 1 ? (splits[1] - splits[0]) / size : 1;
    const digits = Math.max(0, Math.ceil(-Math.log10(step) - 1e-9) + (step < 1 && String(step).includes("25") ? 1 : 0));
    return splits.map((split) => `${(split / size).toLocaleString("en-US", { maximumFractionDigits: Math.min(digits + 1, 9) })} ${name}`);
  }

  const element = (tag, properties, ...children) => {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  };

  function channels(color) {
    const hex = color.replace("#", "");
    return [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16));
  }

  // Intervals [start, end) of a lane as rows of pixels, straight into an image.
  function columns(lane, min, max, wide, high, image, theme, sums, sight) {
    const pixels = new Uint32Array(image.data.buffer);
    pixels.fill(theme.track);
    const scale = wide / (max - min);
    const time = new Float64Array(COLORS);
    const owed = new Float64Array(COLORS);
    const large = [];
    let column = -1;
    const flush = () => {
      if (column < 0) return;
      let bottom = high;
      for (const color of theme.order) {
        if (time[color] === 0) continue;
        owed[color] += time[color] * high;
        const rows = Math.max(0, Math.min(Math.round(owed[color]), bottom));
        owed[color] -= rows;
        const packed = theme.pixels[color];
        for (let row = bottom - rows; row < bottom; row += 1) pixels[row * wide + column] = packed;
        bottom -= rows;
        time[color] = 0;
      }
      for (let row = 0; row < bottom; row += 1) pixels[row * wide + column] = theme.touched;
    };
    const add = (place, color, share) => {
      if (place !== column) {
        flush();
        column = place;
      }
      time[color] += share;
    };
    const put = (start, end, color) => {
      const from = Math.max((start - min) * scale, 0);
      const to = Math.min((end - min) * scale, wide);
      if (!(to > from)) return 0;
      sums[color] += (to - from) / scale;
      const first = Math.floor(from);
      const last = Math.min(Math.floor(to), wide - 1);
      if (first === last) add(first, color, to - from);
      else {
        add(first, color, first + 1 - from);
        for (let place = first + 1; place < last; place += 1) add(place, color, 1);
        add(last, color, to - last);
      }
      return to - from;
    };
    // A span of sums is a column of its own kind: every color is spread evenly over it.
    const { span } = sight;
    const early = lane.sums;
    let low = 0;
    while (low < early.length && early[low].start + span <= min) low += 1;
    for (let i = low; i < early.length && early[i].start < max;) {
      let next = i;
      while (next < early.length && early[next].start === early[i].start) next += 1;
      const { start } = early[i];
      const end = Math.min(start + span, sight.extent);
      const from = Math.max((start - min) * scale, 0);
      const to = Math.min((end - min) * scale, wide);
      for (let place = Math.floor(from); place < to; place += 1) {
        const part = Math.min(to, place + 1) - Math.max(from, place);
        for (let k = i; k < next; k += 1) {
          const share = part * early[k].time / (end - start);
          sums[early[k].color] += share / scale;
          add(place, early[k].color, share);
        }
      }
      i = next;
    }
    for (let i = after(lane.end, min); i < lane.start.length && lane.start[i] < max; i += 1) {
      if (put(lane.start[i], lane.end[i], lane.color[i]) >= 5) large.push(i);
    }
    flush();
    return large;
  }

  // What is chosen of it stands in the address under names that end with `named`.
  function start(figure, named, data, { lanes, heads, height }) {
    const root = figure.querySelector(".fg-timeline");
    const caption = figure.querySelector("figcaption").textContent;
    const bar = element("div", { className: "fg-buttons" });
    const plot = element("div", { className: "fg-lanes", tabIndex: 0 });
    const legend = element("ul", { className: "fg-legend" });
    const partLegend = element("ul", { className: "fg-legend fg-parts", hidden: data.parts.length === 0 });
    const status = element("p", { className: "note fg-status" });
    const help = element("p", { className: "note fg-help", id: `${root.id}-help` });
    help.textContent = "Drag to zoom in, Shift and drag to move, double-click to see everything, Ctrl and wheel to zoom. On a touch screen, one finger moves and two zoom. "
      + "Keys: ← → move, + − zoom, 0 everything, ↑ ↓ choose a lane, comma and period step through its intervals, or through those that are marked, Enter zooms to one. "
      + "Where intervals are narrower than a pixel, each column is divided among the colors in proportion to their time.";
    const tip = element("div", { className: "fg-tip", hidden: true });
    plot.setAttribute("role", "application");
    plot.setAttribute("aria-roledescription", "timeline");
    plot.setAttribute("aria-label", caption);
    plot.setAttribute("aria-describedby", help.id);
    status.setAttribute("role", "status");
    root.replaceChildren(bar, plot, legend, partLegend, status, help);
    if (data.detail > 0) {
      root.append(element("p", { className: "note" }, `Single intervals are kept from ${duration(data.detail)} on; before, their sums over every ${duration(data.span)}.`));
    }
    for (const { left, label } of data.rows) {
      if (left[0] > 0) root.append(element("p", { className: "note" }, `${label}: ${left[0].toLocaleString("en-US")} more intervals (${duration(left[1])}) are not drawn: they overlap more than 12 deep, or lie beyond the first 48 lanes.`));
    }

    let theme = null;
    let chosen = null;
    const marks = marksOf(figure, data, { lanes, heads, height }, { after, duration, element });
    let seen = [0, data.extent];
    const entry = (list, counted) => ([label, color]) => {
      const value = element("span", { className: "fg-value" });
      const swatch = element("span", { className: "fg-swatch" });
      swatch.style.background = `var(--fg-c${color})`;
      const entry = element("li", {}, swatch, `${label} `, value);
      list.append(entry);
      return { color, value, entry, counted };
    };
    const entries = [...data.kinds.map(entry(legend, "work")), ...data.parts.map(entry(partLegend, "parts"))];

    function readTheme() {
      const style = getComputedStyle(root);
      const variable = (name) => style.getPropertyValue(name).trim();
      const packed = (color) => {
        const [r, g, b] = channels(color);
        return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
      };
      const kinds = data.kinds.map((kind) => kind[1]);
      const everyColor = [...Array(COLORS).keys()];
      return {
        ink: variable("--fg-ink"), muted: variable("--fg-muted"), line: variable("--fg-line"), paper: variable("--fg-paper"), on: everyColor.map((color) => variable(`--fg-on${color}`)),
        track: packed(variable("--fg-raised")), touched: packed(variable("--fg-line")), pixels: everyColor.map((color) => packed(variable(`--fg-c${color}`))),
        order: [...new Set([...kinds, ...everyColor])], font: style.fontFamily,
      };
    }

    const gutter = () => (plot.clientWidth < 560 ? 66 : 100);
    const fitting = (ctx, text, room) => {
      if (ctx.measureText(text).width <= room) return text;
      let [low, high] = [0, text.length];
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (ctx.measureText(`${text.slice(0, middle)}…`).width <= room) low = middle;
        else high = middle - 1;
      }
      return low > 0 ? `${text.slice(0, low)}…` : "";
    };

    function drawLanes(u) {
      const { ctx } = u;
      const ratio = devicePixelRatio;
      const left = Math.round(u.bbox.left);
      const wide = Math.max(Math.round(u.bbox.width), 1);
      const { min, max } = u.scales.x;
      if (!(max > min)) return;
      const sums = { no: new Float64Array(COLORS), work: new Float64Array(COLORS), parts: new Float64Array(COLORS) };
      const high = Math.round((LANE - 2) * ratio);
      const image = ctx.createImageData(wide, high);
      const top = Math.round(u.bbox.top);
      ctx.save();
      ctx.textBaseline = "middle";
      ctx.textAlign = "left";
      for (const { row, top: place } of heads) {
        ctx.font = `600 ${13 * ratio}px ${theme.font}`;
        ctx.fillStyle = theme.ink;
        ctx.fillText(fitting(ctx, row.label, wide + left - 8 * ratio), 2 * ratio, top + (place + HEAD / 2) * ratio);
      }
      ctx.font = `${12 * ratio}px ${theme.font}`;
      for (const lane of lanes) {
        const y = top + Math.round(lane.top * ratio);
        const large = columns(lane, min, max, wide, high, image, theme, sums[lane.row.counted], data);
        ctx.putImageData(image, left, y);
        ctx.fillStyle = theme.muted;
        ctx.fillText(fitting(ctx, lane.label, left - 8 * ratio), 2 * ratio, y + high / 2);
        const scale = wide / (max - min);
        for (const i of large) {
          const from = Math.max((lane.start[i] - min) * scale, 0);
          const to = Math.min((lane.end[i] - min) * scale, wide);
          // An edge between neighbors of one color, within the interval.
          ctx.fillStyle = "rgba(0,0,0,.35)";
          if (lane.start[i] > min) ctx.fillRect(left + Math.ceil(from), y, 1, high);
          if (to - from < 26 * ratio) continue;
          const text = fitting(ctx, data.names[lane.name[i]][0], to - from - 8 * ratio);
          ctx.fillStyle = theme.on[lane.color[i]];
          ctx.fillText(text, left + from + 4 * ratio, y + high / 2);
        }
      }
      marks.draw(ctx, { left, top, wide, high }, u.scales.x, theme);
      if (chosen) {
        const { lane, i } = chosen;
        const scale = wide / (max - min);
        const from = Math.max((lane.start[i] - min) * scale, 0);
        const to = Math.min((lane.end[i] - min) * scale, wide);
        if (to >= 0 && from <= wide) {
          ctx.strokeStyle = theme.ink;
          ctx.lineWidth = 2 * ratio;
          ctx.strokeRect(left + from, top + lane.top * ratio, Math.max(to - from, ratio), high);
        }
      }
      ctx.restore();
      for (const { color, value, entry, counted } of entries) {
        const own = sums[counted];
        const whole = own.reduce((sum, time) => sum + time, 0);
        value.textContent = own[color] > 0 ? `${duration(own[color])}, ${(100 * own[color] / whole).toFixed(1)}%` : "none in sight";
        entry.classList.toggle("fg-none", own[color] === 0);
      }
      status.textContent = [`In sight: ${duration(max - min)} from ${duration(min)}.`, chosen && describe(chosen), marks.said()].filter(Boolean).join(" ");
      near.disabled = max - min <= least;
      far.disabled = all.disabled = max - min >= data.extent;
    }

    function describe({ lane, i }) {
      const kind = data.kinds.find((entry) => entry[1] === lane.color[i]);
      const name = data.names[lane.name[i]][0];
      const parts = [name, lane.row.counted === "work" && kind && kind[0] !== name ? kind[0] : "", duration(lane.end[i] - lane.start[i]), `from ${duration(lane.start[i])}`, lane.named];
      return parts.filter(Boolean).join(" · ");
    }

    const size = () => ({ width: Math.max(plot.clientWidth, 200), height: height + AXIS });
    const u = new uPlot({
      ...size(),
      padding: [0, 26, 0, 0],
      legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { x: true, y: false, dist: 4 } },
      scales: { x: { time: false, range: (_, min, max) => [min, max] }, y: { range: [0, 1] } },
      axes: [
        { stroke: () => theme.muted, grid: { stroke: () => theme.line, width: 1 }, ticks: { stroke: () => theme.line, width: 1 }, size: AXIS, space: 96, values: (_, splits) => tickLabels(splits), font: "12px system-ui, sans-serif" },
        { show: true, size: () => gutter(), grid: { show: false }, ticks: { show: false }, values: () => [] },
      ],
      series: [{}, { paths: () => null, points: { show: false } }],
      hooks: { init: [() => { theme = readTheme(); }], draw: [drawLanes], setCursor: [point], setScale: [scaled] },
    }, [[0, data.extent], [null, null]], plot);
    u.over.append(tip);

    // uPlot sets its scale later than requested, and by itself for a selection.
    let isKept = false;
    function scaled(self, scale) {
      tip.hidden = true;
      if (scale !== "x") return;
      seen = [self.scales.x.min, self.scales.x.max];
      if (!isKept) return;
      const isAll = seen[0] <= 0 && seen[1] >= data.extent;
      address.set(`from${named}`, isAll ? null : seen.map((time) => Math.round(time)).join("-"));
    }

    // What lies in a lane near a place, for the pointer.
    function find(left, top) {
      const lane = lanes.find((one) => top >= one.top && top < one.top + LANE - 2);
      if (!lane) return null;
      const time = u.posToVal(left, "x");
      const slack = 3 * (u.posToVal(1, "x") - u.posToVal(0, "x"));
      const i = after(lane.end, time);
      const near = [i - 1, i].filter((k) => k >= 0 && k < lane.start.length && lane.start[k] - slack <= time && lane.end[k] + slack >= time);
      const away = (k) => Math.max(lane.start[k] - time, time - lane.end[k], 0);
      near.sort((a, b) => away(a) - away(b));
      if (near.length > 0) return { text: describe({ lane, i: near[0] }) };
      const sums = lane.sums.filter((sum) => sum.start <= time && time < sum.start + data.span);
      if (sums.length === 0) return null;
      const known = lane.row.counted === "parts" ? data.parts : data.kinds;
      const kinds = sums.map((sum) => `${known.find((kind) => kind[1] === sum.color)?.[0] ?? "other"} ${duration(sum.time)}`);
      return { text: `${duration(data.span)} from ${duration(sums[0].start)}: ${kinds.join(", ")}` };
    }
    function point() {
      const { left, top } = u.cursor;
      const found = left >= 0 ? find(left, top) : null;
      tip.hidden = !found;
      if (!found) return;
      tip.textContent = found.text;
      const right = left > u.over.clientWidth / 2;
      tip.style.left = right ? "" : `${left + 12}px`;
      tip.style.right = right ? `${u.over.clientWidth - left + 12}px` : "";
      tip.style.top = `${top + 16}px`;
    }

    const least = Math.min(100, data.extent);
    function show(from, to) {
      const length = Math.min(Math.max(to - from, least), data.extent);
      const middle = (from + to) / 2;
      const first = Math.min(Math.max(middle - length / 2, 0), data.extent - length);
      seen = [first, first + length];
      u.setScale("x", { min: first, max: first + length });
    }
    const sight = () => seen;
    // What lies at `share` of the width stays there.
    function zoom(factor, share = 0.5) {
      const [from, to] = sight();
      const length = Math.min(Math.max((to - from) * factor, least), data.extent);
      const first = from + (to - from - length) * share;
      show(first, first + length);
    }
    function pan(share) {
      const [from, to] = sight();
      show(from + (to - from) * share, to + (to - from) * share);
    }
    const everything = () => show(0, data.extent);

    const button = (text, label, action) => {
      const made = element("button", { type: "button", textContent: text, title: label });
      made.setAttribute("aria-label", label);
      made.addEventListener("click", action);
      bar.append(made);
      return made;
    };
    const far = button("−", "Zoom out", () => zoom(2));
    const near = button("+", "Zoom in", () => zoom(0.5));
    const all = button("All", "All: show everything", everything);

    // The wheel scrolls the page; with Ctrl it zooms, and sideways it moves.
    u.over.addEventListener("wheel", (event) => {
      const box = u.over.getBoundingClientRect();
      if (event.ctrlKey || event.metaKey) zoom(2 ** (event.deltaY / 250), (event.clientX - box.left) / box.width);
      else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(event.deltaX / box.width);
      else return;
      event.preventDefault();
    }, { passive: false });
    // Shift moves in place of selecting.
    u.over.addEventListener("mousedown", (event) => {
      if (!event.shiftKey || event.button !== 0) return;
      event.stopImmediatePropagation();
      event.preventDefault();
      let last = event.clientX;
      const move = (moved) => {
        pan((last - moved.clientX) / u.over.clientWidth);
        last = moved.clientX;
      };
      addEventListener("mousemove", move);
      addEventListener("mouseup", () => removeEventListener("mousemove", move), { once: true });
    }, { capture: true });
    u.over.addEventListener("dblclick", (event) => {
      event.stopImmediatePropagation();
      everything();
    }, { capture: true });

    // One finger up or down scrolls the page, sideways it moves; two zoom.
    const fingers = new Map();
    u.over.addEventListener("pointerdown", (event) => {
      if (event.pointerType === "touch") fingers.set(event.pointerId, event.clientX);
    });
    u.over.addEventListener("pointermove", (event) => {
      if (!fingers.has(event.pointerId)) return;
      const before = [...fingers.values()];
      fingers.set(event.pointerId, event.clientX);
      const now = [...fingers.values()];
      const box = u.over.getBoundingClientRect();
      const mean = (places) => places.reduce((sum, place) => sum + place, 0) / places.length;
      if (now.length === 2) {
        const [apart, was] = [now, before].map(([a, b]) => Math.max(Math.abs(a - b), 8));
        zoom(was / apart, (mean(now) - box.left) / box.width);
      }
      if (now.length <= 2) pan((mean(before) - mean(now)) / box.width);
    });
    for (const kind of ["pointerup", "pointercancel", "pointerleave"]) {
      u.over.addEventListener(kind, (event) => fingers.delete(event.pointerId));
    }

    // Keys.
    function choose(lane, i) {
      if (!lane || !(i >= 0 && i < lane.start.length)) return;
      chosen = { lane, i };
      address.set(`chosen${named}`, `${lanes.indexOf(lane)}.${i}`);
      const [from, to] = sight();
      if (lane.end[i] < from || lane.start[i] > to) {
        const middle = (lane.start[i] + lane.end[i]) / 2;
        show(middle - (to - from) / 2, middle + (to - from) / 2);
      } else u.redraw(false);
    }
    const inSight = (lane) => Math.min(after(lane.end, sight()[0]), lane.start.length - 1);
    function otherLane(step) {
      const usable = lanes.filter((lane) => lane.start.length > 0);
      const at = chosen ? usable.indexOf(chosen.lane) + step : 0;
      const lane = usable[Math.min(Math.max(at, 0), usable.length - 1)];
      if (lane) choose(lane, chosen ? Math.min(after(lane.end, chosen.lane.start[chosen.i]), lane.start.length - 1) : inSight(lane));
    }
    function next(step) {
      if (!chosen) return otherLane(0);
      const { lane } = chosen;
      let i = chosen.i + step;
      while (i in lane.start && marks.passesOver(lane, i)) i += step;
      return choose(lane, i);
    }
    function toChosen() {
      if (!chosen) return;
      const [from, to] = [chosen.lane.start[chosen.i], chosen.lane.end[chosen.i]];
      show(from - (to - from) * 2, to + (to - from) * 2);
    }
    const KEYS = {
      ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), ArrowUp: () => otherLane(-1), ArrowDown: () => otherLane(1),
      "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: everything, Home: everything, ",": () => next(-1), ".": () => next(1), Enter: toChosen,
    };
    plot.addEventListener("keydown", (event) => {
      const action = KEYS[event.key];
      if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      action();
    });

    new ResizeObserver(() => { if (plot.clientWidth > 0 && plot.clientWidth !== u.width) u.setSize(size()); }).observe(plot);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { theme = readTheme(); u.redraw(false, true); });
    address.keep(`from${named}`, (value) => {
      const [, from, to] = value?.match(/^(\d+)-(\d+)$/) ?? [];
      if (Number(from) < Number(to)) show(Number(from), Number(to));
      else everything();
    });
    address.keep(`chosen${named}`, (value) => {
      const [, lane, i] = value?.match(/^(\d+)\.(\d+)$/) ?? [];
      chosen = i in (lanes[lane]?.start ?? []) ? { lane: lanes[lane], i: Number(i) } : null;
      u.redraw(false);
    });
    isKept = true;
    marks.begin(() => u.redraw(false), (lane, i) => {
      figure.scrollIntoView({ block: "start" });
      plot.focus({ preventScroll: true });
      choose(lane, i);
    });
    figure.timeline = { u, show, lanes };
    root.dataset.ready = "true";
  }

  document.querySelectorAll("figure.timeline").forEach((figure, n) => {
    const data = JSON.parse(figure.querySelector("script").textContent);
    const root = figure.querySelector(".fg-timeline");
    root.id = `timeline-${n + 1}`;
    inflate(data.bytes).then((bytes) => start(figure, n, data, decode(data, bytes)))
      .catch((error) => { root.textContent = `This browser cannot draw the timeline: ${error}`; });
  });
})();
