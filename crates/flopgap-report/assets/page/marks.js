// Parts of waterfalls that are open are marked in timelines: beside them, what is in rows of parts and in the rows below those is pale.
const marksOf = (figure, data, { lanes, heads, height }, { after, duration, element }) => {
  const { subject } = figure.dataset;
  const openers = [...document.querySelectorAll("details.fall[data-marks]")].filter((part) => (
    JSON.parse(part.closest("figure").dataset.marksIn ?? "[]").includes(subject)));
  const divided = lanes.filter((lane) => lane.row.counted === "parts");
  // A row of parts, and those below it up to the next.
  const regions = heads.flatMap(({ row, top }, at) => {
    if (row.counted !== "parts") return [];
    const end = heads.slice(at + 1).find((head) => head.row.counted === "parts")?.top ?? height;
    return [{ top, end, parts: divided.filter((lane) => lane.row === row), lanes: lanes.filter((lane) => lane.top >= top && lane.top < end) }];
  });
  let marked = new Set();
  let said = "";

  // Of the names of intervals, those that some parts mark.
  function namesOf(parts) {
    const names = new Set(parts.flatMap((part) => JSON.parse(part.dataset.marks)));
    return new Set(data.names.flatMap(([label], n) => (names.has(label) ? [n] : [])));
  }
  // How many intervals of some names there are, and how long they take; nothing for none.
  function amount(names) {
    let [count, time] = [0, 0];
    for (const lane of divided) {
      lane.name.forEach((name, i) => {
        if (!names.has(name)) return;
        count += 1;
        time += lane.end[i] - lane.start[i];
      });
    }
    return count === 0 ? "" : `${count === 1 ? "1 interval" : `${count.toLocaleString("en-US")} intervals`}, ${duration(time)}`;
  }
  function mark() {
    const open = openers.filter((part) => part.open);
    marked = namesOf(open);
    const labels = open.map((part) => part.querySelector(".label").textContent);
    said = open.length > 0 ? `Marked: ${labels.join("; ")} (${amount(marked) || "not in this time"}).` : "";
  }

  function drawRegion(ctx, region, { left, top, wide, high }, { min, max }, theme) {
    const ratio = devicePixelRatio;
    const scale = wide / (max - min);
    const share = new Float64Array(wide);
    const large = [];
    for (const lane of region.parts) {
      for (let i = after(lane.end, min); i < lane.start.length && lane.start[i] < max; i += 1) {
        if (!marked.has(lane.name[i])) continue;
        const from = Math.max((lane.start[i] - min) * scale, 0);
        const to = Math.min((lane.end[i] - min) * scale, wide);
        for (let place = Math.floor(from); place < to; place += 1) share[place] += Math.min(to, place + 1) - Math.max(from, place);
        if (to - from >= 3 * ratio) large.push([lane.top, from, to]);
      }
    }
    ctx.save();
    ctx.beginPath();
    for (const lane of region.lanes) ctx.rect(left, top + Math.round(lane.top * ratio), wide, high);
    ctx.clip();
    ctx.fillStyle = theme.paper;
    // A mark that is narrower than a pixel is still to be seen.
    const veil = (place) => (share[place] > 0 ? 0.5 * (1 - Math.min(share[place], 1)) : 0.85);
    // What is known in sums alone is neither marked nor pale.
    const first = Math.min(Math.max(Math.ceil((data.detail - min) * scale), 0), wide);
    for (let place = first, next; place < wide; place = next) {
      for (next = place + 1; next < wide && veil(next) === veil(place);) next += 1;
      ctx.globalAlpha = veil(place);
      ctx.fillRect(left + place, top + region.top * ratio, next - place, (region.end - region.top) * ratio);
    }
    ctx.restore();
    ctx.strokeStyle = theme.ink;
    ctx.lineWidth = ratio;
    for (const [y, from, to] of large) ctx.strokeRect(left + from, top + Math.round(y * ratio), to - from, high);
  }

  return {
    said: () => said,
    // Whether keys that step through the intervals of a lane leave one out.
    passesOver: (lane, i) => marked.size > 0 && lane.row.counted === "parts" && !marked.has(lane.name[i]),
    draw: (ctx, place, sight, theme) => {
      if (said) for (const region of regions) drawRegion(ctx, region, place, sight, theme);
    },
    // Says below each part how much of it the timeline has, with a way there. `changed` draws, `show` shows an interval of a lane.
    begin: (changed, show) => {
      const of = subject ? ` of ${subject}` : "";
      const early = data.detail > 0 ? `; what lies before ${duration(data.detail)} is not` : "";
      for (const part of openers) {
        const found = amount(namesOf([part]));
        const text = found ? `Marked in the timeline${of}: ${found}${early}. ` : `The time of the timeline${of} has nothing of it${early && ", as far as it has single intervals"}.`;
        const note = element("p", { className: "note" }, text);
        if (found) {
          const go = element("button", { type: "button", textContent: `Show the timeline${of}` });
          go.addEventListener("click", () => {
            const own = namesOf([part]);
            const lane = divided.find((one) => one.name.some((name) => own.has(name)));
            show(lane, lane.name.findIndex((name) => own.has(name)));
          });
          note.append(go);
        }
        part.querySelector("summary").after(note);
        part.addEventListener("toggle", () => {
          mark();
          changed();
        });
      }
      mark();
      if (said) changed();
    },
  };
};

